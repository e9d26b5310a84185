/*
 * The header of this name that d3dkmthk.h includes, for systems without a Windows kit: every part of the interface is declared. It says the same as
 * the one of wsl/stubs, so both may be found.
 */
#ifndef CAMPANILE_WINAPIFAMILY_H
#define CAMPANILE_WINAPIFAMILY_H

#define WINAPI_FAMILY_PARTITION(Partitions) 1

#endif /* CAMPANILE_WINAPIFAMILY_H */
