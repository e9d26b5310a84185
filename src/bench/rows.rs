//! The table of the rows, and which of them a filter takes.

use super::row::Row;
use super::{
    c1_matmul, c2_kernels, c5_compile, compute, log_cost, p1_submit, p2_fence, p3_engines, p4_interrupts, p5_memory,
    p6_idle_queues, power, served_rows, vulkan_rows,
};

/// Rows in the order they are shown.
pub const ROWS: &[&Row] = &[
    &p1_submit::ROW,
    &log_cost::SUBMIT,
    &log_cost::TRACED,
    &p2_fence::ROW,
    &p3_engines::ENGINES,
    &log_cost::ENGINES,
    &p3_engines::WAKE,
    &p4_interrupts::ROW,
    &p5_memory::COPY_4K,
    &p5_memory::COPY_1M,
    &p5_memory::COPY_16M,
    &p5_memory::COPY_256M,
    &p5_memory::SHUFFLED_1M,
    &p5_memory::SHUFFLED_16M,
    &p5_memory::FILL_4K,
    &p5_memory::FILL_1M,
    &p5_memory::FILL_16M,
    &p5_memory::FILL_256M,
    &p6_idle_queues::ONE,
    &p6_idle_queues::HUNDRED,
    &p6_idle_queues::THOUSAND,
    &p6_idle_queues::TEN_THOUSAND,
    &c1_matmul::ROW,
    &c2_kernels::ALL,
    &c2_kernels::SAXPY,
    &c2_kernels::REDUCTION,
    &c2_kernels::SCAN,
    &c2_kernels::HISTOGRAM,
    &c2_kernels::STENCIL,
    &c2_kernels::N_BODY,
    &c2_kernels::MANDELBROT,
    &c2_kernels::CHACHA20,
    &c2_kernels::BLAKE3,
    &c2_kernels::SORT,
    &compute::EMPTY,
    &compute::LEAVE,
    &c5_compile::ROW,
    &power::F1,
    &power::D3,
    &power::IDLE,
    &served_rows::SUBMIT,
    &served_rows::FENCE,
    &served_rows::IDLE_QUEUES,
    &vulkan_rows::V1,
    &vulkan_rows::V2,
    &vulkan_rows::V3,
    &vulkan_rows::V4,
    &vulkan_rows::V5,
    &vulkan_rows::V6,
    &vulkan_rows::V7,
];

/// Why no row is measured: the filter matches none of all, or none of those that a machine of another process is asked for.
pub(super) fn none_matches(is_at_machine: bool) -> String {
    let known = ROWS.iter().filter(|row| !is_at_machine || served_rows::is_served(row));
    let known: Vec<&str> = known.map(|row| row.id).collect();
    let which = if is_at_machine { "those that --machine measures" } else { "known" };
    format!("no row matches the filter; {which} are {}", known.join(", "))
}

/// The rows that a filter takes.
pub(super) fn select(filter: Option<&str>) -> Vec<&'static Row> {
    let wanted = filter.unwrap_or_default().to_lowercase();
    let hit = |row: &Row| row.id.to_lowercase().contains(&wanted) || row.what.to_lowercase().contains(&wanted);
    ROWS.iter().copied().filter(|row| hit(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_row_has_a_peer() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(!row.peers.is_empty(), "{}", row.id);
            // The first peer has the row's own aim.
            assert!(row.further.iter().all(|aim| (1..row.peers.len()).contains(&aim.peer)), "{}", row.id);
            assert!(ROWS[index + 1..].iter().all(|other| other.id != row.id), "{}", row.id);
        }
    }

    #[test]
    fn the_filter_takes_ids_and_words() {
        assert_eq!(select(None).len(), ROWS.len());
        assert_eq!(select(Some("p1")).len(), 4);
        assert_eq!(select(Some("no such row")).len(), 0);
    }
}
