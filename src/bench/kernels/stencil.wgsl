@group(0) @binding(0) var<storage, read> cells: array<f32>;
@group(0) @binding(1) var<storage, read_write> next: array<f32>;

// One step of heat that spreads over 1024 rows and columns, whose edges stay.
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = id.y * 1024u + id.x;
    let cell = cells[at];
    if id.x == 0u || id.x == 1023u || id.y == 0u || id.y == 1023u {
        next[at] = cell;
        return;
    }
    let around = cells[at - 1u] + cells[at + 1u] + cells[at - 1024u] + cells[at + 1024u];
    next[at] = cell + 0.125 * (around - 4.0 * cell);
}
