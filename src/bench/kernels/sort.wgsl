@group(0) @binding(0) var<storage, read> numbers: array<u32>;
@group(0) @binding(1) var<storage, read_write> sorted: array<u32>;
var<workgroup> part: array<u32, 512>;

// The 512 numbers of a workgroup in order, by a bitonic network.
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let first = group.x * 512u + lane;
    part[lane] = numbers[first];
    part[lane + 256u] = numbers[first + 256u];
    workgroupBarrier();
    for (var size = 2u; size <= 512u; size <<= 1u) {
        for (var distance = size >> 1u; distance > 0u; distance >>= 1u) {
            let low = (lane / distance) * distance * 2u + lane % distance;
            let high = low + distance;
            let a = part[low];
            let b = part[high];
            let rises = (low & size) == 0u;
            if (a > b) == rises {
                part[low] = b;
                part[high] = a;
            }
            workgroupBarrier();
        }
    }
    sorted[first] = part[lane];
    sorted[first + 256u] = part[lane + 256u];
}
