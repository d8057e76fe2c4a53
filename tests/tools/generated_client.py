"""Drives a server with the client that openapi-python-client generated from the published interface.

Usage: generated_client.py FOLDER URL TOKEN LICENSE_KEY, where FOLDER has the package countersign_api.
"""

import sys

folder, url, token, license_key = sys.argv[1:]
sys.path.insert(0, folder)

from countersign_api import AuthenticatedClient, Client
from countersign_api.api.licenses import issue_license, list_licenses, read_license, suspend_license
from countersign_api.api.sites import get_update, validate_license
from countersign_api.models import (
    License,
    LicensePage,
    MalformedOrMissingFieldProblem,
    Manifest,
    NewLicense,
    Statement,
    SuspendLicenseBody,
    ValidationInvalidProblem,
)
from countersign_api.types import UNSET

sites = Client(base_url=url)
# The generator has no class for a body that needs one of two fields.
statement = validate_license.sync(client=sites, body={"license_key": license_key, "site_url": "https://generated.example"})
assert isinstance(statement, Statement) and statement.status.value == "active", statement
manifest = get_update.sync("acme-forms", client=AuthenticatedClient(base_url=url, token=license_key, prefix="License"),
                           site_url="https://generated.example")
assert isinstance(manifest, Manifest) and manifest.slug == "acme-forms", manifest
refused = validate_license.sync(client=sites, body={"license_key": license_key, "site_url": "not a site"})
assert isinstance(refused, ValidationInvalidProblem), refused
assert refused.errors[0].pointer == "#/site_url", refused

programs = AuthenticatedClient(base_url=url, token=token)
wanted = NewLicense.from_dict({"modules": {"acme-forms": ["export"]}, "expires": "never", "sites": "unlimited"})
issued = issue_license.sync(client=programs, body=wanted, idempotency_key="python")
assert isinstance(issued, License) and issued.sites == "unlimited", issued
again = read_license.sync(issued.id, client=programs)
assert isinstance(again, License) and again.id == issued.id, again
listed = []
cursor = UNSET
while True:
    page = list_licenses.sync(client=programs, cursor=cursor)
    assert isinstance(page, LicensePage), page
    listed += [license.id for license in page.licenses]
    cursor = page.next_
    if not cursor:
        break
assert issued.id in listed, listed
suspended = suspend_license.sync(issued.id, client=programs, body=SuspendLicenseBody())
assert isinstance(suspended, License) and suspended.standing.value == "suspended", suspended
nothing = NewLicense.from_dict({"modules": {}, "expires": "never"})
wrong = issue_license.sync(client=programs, body=nothing, idempotency_key="wrong")
assert isinstance(wrong, MalformedOrMissingFieldProblem) and wrong.errors[0].pointer == "#/modules", wrong
print("done")
