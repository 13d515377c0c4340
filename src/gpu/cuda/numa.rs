//! The NUMA node that a device is attached to: copies from and to memory of another one pass the link
//! between processors. Linux only; elsewhere, and on machines with one node, nothing is done.
//!
//! Not measured: no machine with several nodes was at hand.

use std::path::Path;

/// The node of the device with this PCI address, if the machine has several.
pub(super) fn node_of(pci: &str) -> Option<u32> {
    node_in(Path::new("/sys"), pci)
}

fn node_in(sys: &Path, pci: &str) -> Option<u32> {
    let online = std::fs::read_to_string(sys.join("devices/system/node/online")).ok()?;
    // A list of ranges, such as `0-1` or `0,2`.
    if !online.contains(['-', ',']) {
        return None;
    }
    // Drivers write capital letters, the file system has small ones.
    let device = sys.join("bus/pci/devices").join(pci.to_ascii_lowercase());
    // -1 where the firmware does not say.
    std::fs::read_to_string(device.join("numa_node")).ok()?.trim().parse().ok()
}

/// Runs `allocate` on this thread with memory preferred on a node, if one is given and the system lets it.
#[cfg(target_os = "linux")]
pub(super) fn on_node<T>(node: Option<u32>, allocate: impl FnOnce() -> T) -> T {
    /// Bits of a set of nodes.
    const NODES: usize = 1024;
    const BITS: usize = libc::c_ulong::BITS as usize;
    type Nodes = [libc::c_ulong; NODES / BITS];

    let Some(node) = node.map(|node| node as usize).filter(|node| *node < NODES) else {
        return allocate();
    };
    let (mut policy, mut before): (libc::c_int, Nodes) = (0, [0; NODES / BITS]);
    // SAFETY: writes the thread's policy and a set of as many nodes as it is told.
    let is_known = unsafe {
        let nodes = before.as_mut_ptr();
        libc::syscall(libc::SYS_get_mempolicy, &raw mut policy, nodes, NODES, 0_usize, 0_usize)
    } == 0;
    let set = |policy: libc::c_int, nodes: &Nodes| {
        // SAFETY: reads a set of as many nodes as it is told; concerns new pages of this thread alone.
        unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, nodes.as_ptr(), NODES) == 0 }
    };
    let mut preferred: Nodes = [0; NODES / BITS];
    preferred[node / BITS] = 1 << (node % BITS);
    let is_set = is_known && set(libc::MPOL_PREFERRED, &preferred);
    let result = allocate();
    if is_set {
        set(policy, &before);
    }
    result
}

#[cfg(not(target_os = "linux"))]
pub(super) fn on_node<T>(_: Option<u32>, allocate: impl FnOnce() -> T) -> T {
    allocate()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_node_where_there_are_several() {
        let sys = std::env::temp_dir().join(format!("lanepack-numa-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = sys.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(node_in(&sys, "0000:1B:00.0"), None);
        write("devices/system/node/online", "0-1\n");
        assert_eq!(node_in(&sys, "0000:1B:00.0"), None);
        write("bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
        assert_eq!(node_in(&sys, "0000:1B:00.0"), Some(1));
        write("bus/pci/devices/0000:1b:00.0/numa_node", "-1\n");
        assert_eq!(node_in(&sys, "0000:1B:00.0"), None);
        write("bus/pci/devices/0000:1b:00.0/numa_node", "0\n");
        assert_eq!(node_in(&sys, "0000:1B:00.0"), Some(0));
        write("devices/system/node/online", "0\n");
        assert_eq!(node_in(&sys, "0000:1B:00.0"), None);
        std::fs::remove_dir_all(sys).unwrap();
    }

    #[test]
    fn allocates_on_any_node() {
        // There is a node 0; 1,023 and 5,000 are none, which changes nothing.
        for node in [None, Some(0), Some(1023), Some(5000)] {
            let pages = on_node(node, || vec![7_u8; 1 << 20]);
            assert!(pages.iter().all(|byte| *byte == 7), "{node:?}");
        }
    }
}
