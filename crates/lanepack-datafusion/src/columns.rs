//! Expressions of a plan's columns as expressions of others, of which these are made.

use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::PhysicalExpr;

/// An expression with each column replaced by what `made_of` gives for its number.
pub(crate) fn replaced<'a>(
    expr: &Arc<dyn PhysicalExpr>,
    made_of: impl Fn(usize) -> Option<&'a Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = expr.clone().transform(|expr| {
        Ok(match expr.downcast_ref::<Column>() {
            Some(column) => match made_of(column.index()) {
                // The columns of the replacement are not replaced again.
                Some(own) => Transformed::new(own.clone(), true, TreeNodeRecursion::Jump),
                None => return internal_err!("no column {column}"),
            },
            None => Transformed::no(expr),
        })
    });
    Ok(replaced?.data)
}
