/*
 * The header of this name that d3dkmthk.h includes first, for systems without a Windows kit: every part of the interface is declared, and so are the base
 * types that the rest of d3dkmthk.h is written in. A program that takes these from elsewhere includes wsl/winadapter.h before, or defines
 * CAMPANILE_NO_BASE_TYPES. The header of this name in wsl/stubs says the same but declares no types, so that either may be found behind winadapter.h.
 */
#ifndef CAMPANILE_WINAPIFAMILY_H
#define CAMPANILE_WINAPIFAMILY_H

#if defined(CAMPANILE_KMT_TYPES) && defined(_D3DKMTHK_H_)
#error "d3dkmthk.h is included behind campanile_kmt.h, and both declare the thunks: include d3dkmthk.h first"
#endif

#include "campanile_windows.h"

#define WINAPI_FAMILY_PARTITION(Partitions) 1

#endif /* CAMPANILE_WINAPIFAMILY_H */
