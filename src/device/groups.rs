//! Which chunks share a launch, of decompression and of compression.
//!
//! A launch has as many blocks for each of its nodes as the largest needs, so one large node
//! makes many blocks without work for small ones. These are over soon, while a launch of a few
//! small nodes takes as long as its slowest block: at most half of a launch may be for nothing.

use std::cmp::Reverse;

/// Nodes in groups: the largest size of a group, for each of its nodes, is at most twice the sizes
/// of all of them. They stay in their order, as reports name the first that is damaged.
pub fn size_groups<T>(nodes: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut by_size: Vec<(usize, T)> = nodes.into_iter().enumerate().collect();
    by_size.sort_by_key(|(_, node)| Reverse(size(node)));
    let mut groups: Vec<Vec<(usize, T)>> = Vec::new();
    let (mut most, mut all) = (0, 0);
    for (number, node) in by_size {
        let own = size(&node);
        match groups.last_mut() {
            Some(group) if (group.len() + 1) * most <= 2 * (all + own) => {
                all += own;
                group.push((number, node));
            }
            _ => {
                (most, all) = (own, own);
                groups.push(vec![(number, node)]);
            }
        }
    }
    let in_order = |mut group: Vec<(usize, T)>| {
        group.sort_by_key(|(number, _)| *number);
        group.into_iter().map(|(_, node)| node).collect()
    };
    groups.into_iter().map(in_order).collect()
}

#[cfg(test)]
mod tests {
    use super::size_groups;

    #[test]
    fn groups_of_sizes() {
        let groups = |sizes: &[usize]| size_groups(sizes.to_vec(), |size| *size);
        assert!(groups(&[]).is_empty());
        assert_eq!(groups(&[0, 0]), [[0, 0]]);
        // A short chunk at the end takes no launch of its own.
        assert_eq!(groups(&[27, 27, 27, 1]), [[27, 27, 27, 1]]);
        assert_eq!(groups(&[3, 1000]), [[3, 1000]]);
        assert_eq!(groups(&[1, 2, 1000, 1, 2, 0]), [vec![2, 1000], vec![1, 1, 2, 0]]);
        let sizes: Vec<usize> = (0..900).map(|at| at * at % 1009 * (at % 7)).collect();
        for group in groups(&sizes) {
            assert!(group.len() * group.iter().max().unwrap() <= 2 * group.iter().sum::<usize>());
        }
    }
}
