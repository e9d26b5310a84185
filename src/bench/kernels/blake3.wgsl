@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> values: array<u32>;

fn rotated(value: u32, count: u32) -> u32 {
    return (value >> count) | (value << (32u - count));
}

fn mix(s: ptr<function, array<u32, 16>>, a: u32, b: u32, c: u32, d: u32, x: u32, y: u32) {
    (*s)[a] += (*s)[b] + x;
    (*s)[d] = rotated((*s)[d] ^ (*s)[a], 16u);
    (*s)[c] += (*s)[d];
    (*s)[b] = rotated((*s)[b] ^ (*s)[c], 12u);
    (*s)[a] += (*s)[b] + y;
    (*s)[d] = rotated((*s)[d] ^ (*s)[a], 8u);
    (*s)[c] += (*s)[d];
    (*s)[b] = rotated((*s)[b] ^ (*s)[c], 7u);
}

// The chaining value of BLAKE3 of a chunk of 1024 bytes for each invocation, whose number is the chunk's.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var chain = array<u32, 8>(0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
        0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u);
    for (var block = 0u; block < 16u; block++) {
        var m: array<u32, 16>;
        for (var word = 0u; word < 16u; word++) {
            m[word] = words[id.x * 256u + block * 16u + word];
        }
        let flags = select(0u, 1u, block == 0u) | select(0u, 2u, block == 15u);
        var s = array<u32, 16>(chain[0], chain[1], chain[2], chain[3], chain[4], chain[5], chain[6], chain[7],
            0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, id.x, 0u, 64u, flags);
        for (var round = 0u; round < 7u; round++) {
            mix(&s, 0u, 4u, 8u, 12u, m[0], m[1]);
            mix(&s, 1u, 5u, 9u, 13u, m[2], m[3]);
            mix(&s, 2u, 6u, 10u, 14u, m[4], m[5]);
            mix(&s, 3u, 7u, 11u, 15u, m[6], m[7]);
            mix(&s, 0u, 5u, 10u, 15u, m[8], m[9]);
            mix(&s, 1u, 6u, 11u, 12u, m[10], m[11]);
            mix(&s, 2u, 7u, 8u, 13u, m[12], m[13]);
            mix(&s, 3u, 4u, 9u, 14u, m[14], m[15]);
            m = array<u32, 16>(m[2], m[6], m[3], m[10], m[7], m[0], m[4], m[13],
                m[1], m[11], m[12], m[5], m[9], m[14], m[15], m[8]);
        }
        for (var word = 0u; word < 8u; word++) {
            chain[word] = s[word] ^ s[word + 8u];
        }
    }
    for (var word = 0u; word < 8u; word++) {
        values[id.x * 8u + word] = chain[word];
    }
}
