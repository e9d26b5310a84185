//! Instructions for vectors of 256 bits by those for vectors of 512 bits that do the same.

use iced_x86::Code;
use iced_x86::Code::*;

/// The instruction of AVX2 that does what one of AVX-512 does without a mask; instructions that have no vectors, and those that AVX2 lacks, are given back.
pub(crate) fn half(code: Code) -> Code {
    match code {
        EVEX_Vmovdqu32_zmm_k1z_zmmm512 => VEX_Vmovdqu_ymm_ymmm256,
        EVEX_Vmovdqu32_zmmm512_k1z_zmm => VEX_Vmovdqu_ymmm256_ymm,
        EVEX_Vpbroadcastd_zmm_k1z_xmmm32 => VEX_Vpbroadcastd_ymm_xmmm32,
        EVEX_Vpbroadcastq_zmm_k1z_xmmm64 => VEX_Vpbroadcastq_ymm_xmmm64,
        EVEX_Vpmovsxdq_zmm_k1z_ymmm256 => VEX_Vpmovsxdq_ymm_xmmm128,
        EVEX_Vpmovzxdq_zmm_k1z_ymmm256 => VEX_Vpmovzxdq_ymm_xmmm128,
        EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8 => VEX_Vextracti128_xmmm128_ymm_imm8,
        EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8 => VEX_Vinserti128_ymm_ymm_xmmm128_imm8,
        EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpmuludq_ymm_ymm_ymmm256,
        EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32 | EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpand_ymm_ymm_ymmm256,
        EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32 | EVEX_Vpandnq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpandn_ymm_ymm_ymmm256,
        EVEX_Vpord_zmm_k1z_zmm_zmmm512b32 | EVEX_Vporq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpor_ymm_ymm_ymmm256,
        EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32 | EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpxor_ymm_ymm_ymmm256,
        EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32 => VEX_Vblendvps_ymm_ymm_ymmm256_ymm,
        EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64 => VEX_Vblendvpd_ymm_ymm_ymmm256_ymm,
        EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er => VEX_Vfmadd231ps_ymm_ymm_ymmm256,
        EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er => VEX_Vfmadd231pd_ymm_ymm_ymmm256,
        EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er => VEX_Vfmadd213ps_ymm_ymm_ymmm256,
        EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er => VEX_Vfmadd213pd_ymm_ymm_ymmm256,
        EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae => VEX_Vroundps_ymm_ymmm256_imm8,
        EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae => VEX_Vroundpd_ymm_ymmm256_imm8,
        EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae => VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
        EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae => VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
        EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er => VEX_Vcvtdq2ps_ymm_ymmm256,
        EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae => VEX_Vcvttps2dq_ymm_ymmm256,
        _ => arithmetic(code),
    }
}

/// The same of shifts, and of arithmetic that is one instruction.
fn arithmetic(code: Code) -> Code {
    match code {
        EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8 => VEX_Vpslld_ymm_ymm_imm8,
        EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8 => VEX_Vpsllq_ymm_ymm_imm8,
        EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8 => VEX_Vpsrld_ymm_ymm_imm8,
        EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8 => VEX_Vpsrlq_ymm_ymm_imm8,
        EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8 => VEX_Vpsrad_ymm_ymm_imm8,
        EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32 => VEX_Vpsllvd_ymm_ymm_ymmm256,
        EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpsllvq_ymm_ymm_ymmm256,
        EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32 => VEX_Vpsrlvd_ymm_ymm_ymmm256,
        EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpsrlvq_ymm_ymm_ymmm256,
        EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32 => VEX_Vpsravd_ymm_ymm_ymmm256,
        EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er => VEX_Vaddps_ymm_ymm_ymmm256,
        EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er => VEX_Vaddpd_ymm_ymm_ymmm256,
        EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er => VEX_Vsubps_ymm_ymm_ymmm256,
        EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er => VEX_Vsubpd_ymm_ymm_ymmm256,
        EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er => VEX_Vmulps_ymm_ymm_ymmm256,
        EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er => VEX_Vmulpd_ymm_ymm_ymmm256,
        EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er => VEX_Vdivps_ymm_ymm_ymmm256,
        EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er => VEX_Vdivpd_ymm_ymm_ymmm256,
        EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er => VEX_Vsqrtps_ymm_ymmm256,
        EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er => VEX_Vsqrtpd_ymm_ymmm256,
        EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32 => VEX_Vpaddd_ymm_ymm_ymmm256,
        EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpaddq_ymm_ymm_ymmm256,
        EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32 => VEX_Vpsubd_ymm_ymm_ymmm256,
        EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64 => VEX_Vpsubq_ymm_ymm_ymmm256,
        EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32 => VEX_Vpmulld_ymm_ymm_ymmm256,
        EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32 => VEX_Vpminsd_ymm_ymm_ymmm256,
        EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32 => VEX_Vpminud_ymm_ymm_ymmm256,
        EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32 => VEX_Vpmaxsd_ymm_ymm_ymmm256,
        EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32 => VEX_Vpmaxud_ymm_ymm_ymmm256,
        EVEX_Vpabsd_zmm_k1z_zmmm512b32 => VEX_Vpabsd_ymm_ymmm256,
        others => others,
    }
}
