#!/usr/bin/env python3
"""Prints the bill of materials of a release as SPDX 2.3: each file of the tarball with its checksums. usage: sbom.py VERSION TARBALL"""

import hashlib
import json
import sys
import tarfile
import datetime

# Files that are not the project's own.
OTHERS = {"src/http/assets/uPlot.min.js": "uPlot", "src/http/assets/uPlot.min.css": "uPlot"}


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    version, tarball = sys.argv[1:]
    files, newest = [], 0
    with tarfile.open(tarball) as tar:
        for member in tar:
            newest = max(newest, int(member.mtime))
            if not member.isfile():
                continue
            name = member.name.split("/", 1)[1]
            data = tar.extractfile(member).read()
            files.append(
                {
                    "SPDXID": f"SPDXRef-File-{len(files) + 1}",
                    "fileName": f"./{name}",
                    "checksums": [
                        {"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                        {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()},
                    ],
                    "licenseConcluded": "MIT",
                    "copyrightText": "Leon Sorokin" if name in OTHERS else "temporal-slab contributors",
                }
            )
    sha1 = sorted(f["checksums"][0]["checksumValue"] for f in files)
    with open(tarball, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"tslab-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/tslab-{version}-{digest}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(newest, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: packaging/sbom.py"],
        },
        "packages": [
            {
                "SPDXID": "SPDXRef-Package-tslab",
                "name": "tslab",
                "versionInfo": version,
                "downloadLocation": "NOASSERTION",
                "packageFileName": tarball.rsplit("/", 1)[-1],
                "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
                "filesAnalyzed": True,
                "packageVerificationCode": {
                    "packageVerificationCodeValue": hashlib.sha1("".join(sha1).encode()).hexdigest()
                },
                "licenseDeclared": "MIT",
                "licenseConcluded": "MIT",
                "copyrightText": "temporal-slab contributors",
            },
            {
                "SPDXID": "SPDXRef-Package-uPlot",
                "name": "uPlot",
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "licenseDeclared": "MIT",
                "licenseConcluded": "MIT",
                "copyrightText": "Leon Sorokin",
            },
        ],
        "files": files,
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Package-tslab"},
            {"spdxElementId": "SPDXRef-Package-tslab", "relationshipType": "CONTAINS", "relatedSpdxElement": "SPDXRef-Package-uPlot"},
        ]
        + [
            {"spdxElementId": "SPDXRef-Package-tslab", "relationshipType": "CONTAINS", "relatedSpdxElement": f["SPDXID"]}
            for f in files
        ],
    }
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
