"""What pefile, lief and signify say about the files of a driver package, as JSON. tests/pe/opinions.rs runs this and judges.

opinions.py FOLDER [IMAGE...]: pefile, which takes seconds for an image with many relocations, reads only the images that are named.
"""

import gc
import json
import pathlib
import re
import sys

import lief
import pefile

plain = re.search


def search(pattern, *rest):
    """oscrypto 1.3.0 asks for a version of OpenSSL whose parts have one digit each; 3.0.19 has two."""
    if isinstance(pattern, str):
        pattern = pattern.replace(r"\d\.\d\.\d[", r"\d+\.\d+\.\d+[")
    return plain(pattern, *rest)


re.search = search
from signify.authenticode import AuthenticodeFile, CertificateTrustList  # noqa: E402
from signify.x509 import Certificate, CertificateStore  # noqa: E402

re.search = plain


def by_pefile(path):
    pe = pefile.PE(str(path))
    kinds = {"driver": pe.is_driver(), "dll": pe.is_dll(), "exe": pe.is_exe()}
    debug = [entry.entry for entry in getattr(pe, "DIRECTORY_ENTRY_DEBUG", []) if entry.entry is not None]
    imports = getattr(pe, "DIRECTORY_ENTRY_IMPORT", [])
    exports = getattr(pe, "DIRECTORY_ENTRY_EXPORT", None)
    relocations = getattr(pe, "DIRECTORY_ENTRY_BASERELOC", [])
    return {
        "warnings": pe.get_warnings(),
        "checksum": pe.verify_checksum(),
        "kinds": sorted(kind for kind, is_one in kinds.items() if is_one),
        "sections": [section.Name.rstrip(b"\0").decode() for section in pe.sections],
        "imports": sorted(f"{of.dll.decode()}!{name.name.decode()}" for of in imports for name in of.imports),
        "exports": sorted(symbol.name.decode() for symbol in exports.symbols) if exports else [],
        "relocations": sum(1 for block in relocations for entry in block.entries if entry.type != 0),
        "pdbs": [entry.PdbFileName.rstrip(b"\0").decode() for entry in debug if hasattr(entry, "PdbFileName")],
    }


def by_lief(path):
    binary = lief.PE.parse(str(path))
    views = [entry for entry in binary.debug if isinstance(entry, lief.PE.CodeViewPDB)]
    exports = binary.get_export() if binary.has_exports else None
    return {
        "checksum": binary.compute_checksum() == binary.optional_header.checksum,
        "sections": [section.name for section in binary.sections],
        "imports": sorted(f"{of.name}!{entry.name}" for of in binary.imports for entry in of.entries),
        "exports": sorted(entry.name for entry in exports.entries) if exports else [],
        "relocations": sum(
            1 for block in binary.relocations for entry in block.entries
            if entry.type != lief.PE.RelocationEntry.BASE_TYPES.ABS
        ),
        "pdbs": [view.filename for view in views],
        "signatures": len(binary.signatures),
        "signature": str(binary.verify_signature()).rsplit(".", 1)[-1],
        "digest": binary.authentihash_sha256.hex(),
    }


def outcome(check):
    """`OK`, or the name of the error."""
    try:
        check()
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return "OK"


def by_signify(path, store, catalog):
    """How the file's own signature, and the catalog's, hold for it. They are not timestamped."""
    with path.open("rb") as stream:
        file = AuthenticodeFile.from_stream(stream, str(path), allow_flat=True)
        embedded = outcome(lambda: file.verify(signature_types="embedded", trusted_certificate_store=store))
        file.add_catalog(catalog)
        listed = outcome(lambda: file.verify(signature_types="catalog", trusted_certificate_store=store))
        return {"embedded": embedded, "catalog": listed}


def main(folder, *names):
    certificate = Certificate.from_der((folder / "campanile_test.cer").read_bytes())
    trusted = CertificateStore([certificate], trusted=True)
    untrusted = CertificateStore([], trusted=True)
    with (folder / "campanile.cat").open("rb") as stream:
        catalog = CertificateTrustList.from_envelope(stream.read())
    images = [path for path in sorted(folder.iterdir()) if path.suffix in (".sys", ".dll", ".exe")]
    members = [*images, folder / "campanile.inf", folder / "campanile_vulkan.json"]
    print(json.dumps({
        "pefile": {path.name: by_pefile(path) for path in images if path.name in names},
        "lief": {path.name: by_lief(path) for path in images},
        "signify": {path.name: by_signify(path, trusted, catalog) for path in members},
        "strangers": {path.name: by_signify(path, untrusted, catalog) for path in members},
        "catalog": {
            "is_catalog": catalog.is_catalog,
            "members": len(list(catalog.subjects)),
            "signature": outcome(lambda: catalog.verify(trusted_certificate_store=trusted)),
            "stranger": outcome(lambda: catalog.verify(trusted_certificate_store=untrusted)),
        },
    }))


# A table of relocations is a million objects, none of which is garbage before the end.
gc.disable()
main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
