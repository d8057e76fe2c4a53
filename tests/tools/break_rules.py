#!/usr/bin/env python3
"""Breaks each rule of what sales grant, one at a time, and shows that the scenarios notice (`make broken-rules`).

The crate of the values and the scenarios are copied into target/broken-rules/, so that a broken rule is never in the tree. A rule
whose breaking nobody notices is an error, and so is one whose text is not found: then the code changed, and this list is to follow.
With an argument, only rules that have it in their names are broken.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "target" / "broken-rules"
SALE = "crates/model/src/sale/"

# Rule, file, what is written, what is written instead.
RULES = [
    ("a payment whose refunds add up to it does not stand", "grants.rs", "amount > 0 && back >= amount", "amount > 0 && back > amount"),
    ("a payment of nothing stands", "grants.rs", "amount > 0 && back >= amount", "back >= amount"),
    ("only approved refunds count", "grants.rs", "filter(|refund| refund.is_approved)", "filter(|_| true)"),
    ("a payment with an open dispute does not stand", "grants.rs", "dispute.status != DisputeStatus::Won", "dispute.status == DisputeStatus::Lost"),
    ("a payment with a lost dispute does not stand", "grants.rs", "dispute.status != DisputeStatus::Won", "dispute.status == DisputeStatus::Open"),
    ("a payment that the shop does not count does not stand", "grants.rs", "(_, _, false) => Some(SuspensionCause::NotPaid)", "(_, _, false) => None"),
    ("a line with a negative amount is no period", "grants.rs", "if !line.is_recurring || amount < 0 {", "if !line.is_recurring {"),
    ("a refund never makes a license end later", "grants.rs", ".fold(newest.to, DateTime::min)", ".fold(newest.to, |end, _| end)"),
    ("an item has its own periods", "grants.rs", "if stretches.iter().any(|stretch| stretch.item == Some(item)) {", "if stretches.iter().all(|stretch| stretch.item == Some(item)) {"),
    ("the newest period is the one that begins last", "grants.rs", "(stretch.from, stretch.to)", "(stretch.to, stretch.from)"),
    ("after a refund, the end is one that was named before it", "grants.rs", "find(|(named, _)| *named < fallen)", "find(|(named, _)| *named >= fallen || *named < fallen)"),
    ("a subscription names its end only while it goes on", "facts.rs", "filter(|_| subscription.status.names_its_end())", "filter(|_| true)"),
    ("a period that the shop gives away counts", "grants.rs", "            item: None,\n            stands: true,", "            item: None,\n            stands: false,"),
    ("paid time survives the end of the subscription", "grants.rs", "ended.filter(|_| newest.is_free)", "ended.filter(|_| true)"),
    ("what cost nothing ends with its subscription", "grants.rs", "ended.filter(|_| newest.is_free)", "ended.filter(|_| false)"),
    ("a paused subscription is suspended", "grants.rs", "stands: stands && is_sold && !is_paused,", "stands: stands && is_sold,"),
    ("time that is paid early is added at the end", "grants.rs", "lasts.last_day(paid.date_naive().max(before.unwrap_or(NaiveDate::MIN)))", "lasts.last_day(paid.date_naive().max(NaiveDate::MIN))"),
    ("grace needs a renewal to come", "grants.rs", "is_paid_up && word.renews && word.status.goes_on()", "is_paid_up && word.status.goes_on()"),
    ("grace needs a newest payment that stands", "grants.rs", "is_active && newest.is_paid_up", "is_active"),
    ("invoices with terms are waited for", "grants.rs", ".max(word.due_days.unwrap_or(0))", ""),
    ("all names of a payment say one quantity", "grants.rs", "*quantity = line.quantity.max(*quantity);", "*quantity += line.quantity;"),
    ("a subscription keeps what it named once", "facts.rs", "claims.extend(subscription.removed.iter().cloned());", ""),
    ("an invoice sells an item once", "grants.rs", "find(|known| known.item == item.item)", "find(|known| known.item != known.item)"),
    ("an item takes the place of its product", "grants.rs", "for is_of_product in [true, false] {", "for is_of_product in [false, false] {"),
    ("what is not sold any more is suspended", "grants.rs", "let is_sold = item.is_some();", "let is_sold = true;"),
    ("an older word changes nothing", "facts.rs", "Some(known) if word.replaces(known) => *known = word,", "Some(known) if known != &word => *known = word,"),
    ("a person's word gives what was sold the terms of today", "facts.rs", "*terms = now;", "let _ = now;"),
    ("a subscription goes on from an older one", "facts.rs", "if seen.contains(&before) {", "if !seen.is_empty() {"),
    ("an offer of a subscription sells nothing by itself", "grants.rs", "terms.lasts == LicenseTerm::Subscription", "terms.lasts == LicenseTerm::Subscription && false"),
    ("a line without an offer stops nobody, and is listed", "grants.rs", "self.remainder.insert(Remainder::NoOffer(price.clone()));", ""),
    ("a person's value holds while the shop says the same", "edits.rs", "edit.filter(|edit| edit.base == *of_shop)", "edit.filter(|_| false)"),
    ("a person's value yields to a new one of the shop", "edits.rs", "edit.filter(|edit| edit.base == *of_shop)", "edit.filter(|_| true)"),
    ("a later end of a person holds until the shop's is later", "edits.rs", "edit.value.max(of_shop.expires)", "edit.value"),
    ("the graver status counts", "edits.rs", "of_shop.status.graver(self.status.unwrap_or(LicenseStatus::Active))", "of_shop.status"),
]


def main():
    copy()
    if not run():
        sys.exit("the scenarios fail while no rule is broken")
    wrong = []
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    rules = [rule for rule in RULES if named in rule[0]]
    for rule, file, written, instead in rules:
        path = COPY / SALE / file
        text = path.read_text()
        if written not in text:
            wrong.append(f"not found: {rule}")
            print(f"  ?  {rule}", flush=True)
            continue
        path.write_text(text.replace(written, instead))
        unnoticed = run()
        path.write_text(text)
        print(f"{'  !! ' if unnoticed else '  ok '} {rule}", flush=True)
        if unnoticed:
            wrong.append(f"nobody notices: {rule}")
    print(f"{len(rules)} rules broken, {len(rules) - len(wrong)} noticed")
    sys.exit("\n".join(wrong) or 0)


def copy():
    """A package with the crate of the values, and the scenarios as its only test."""
    for name in ("crates", "tests"):
        shutil.rmtree(COPY / name, ignore_errors=True)
    # New times: what an earlier run left built is of a broken rule.
    shutil.copytree(ROOT / "crates/model", COPY / "crates/model", copy_function=shutil.copy)
    shutil.copytree(ROOT / "tests/data/sales", COPY / "tests/data/sales", copy_function=shutil.copy)
    for name in ("support/sale.rs", "support/random.rs", "suite/sales.rs"):
        target = COPY / "tests" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / name, target)
    (COPY / "tests/sales.rs").write_text(
        "#![allow(dead_code)]\n"
        '#[path = "."]\nmod support {\n    #[path = "support/random.rs"]\n    pub mod random;\n    #[path = "support/sale.rs"]\n    pub mod sale;\n}\n'
        '#[path = "suite/sales.rs"]\nmod sales;\n'
    )
    shutil.copy(ROOT / "Cargo.lock", COPY / "Cargo.lock")
    workspace = (ROOT / "Cargo.toml").read_text()
    shared = workspace[workspace.index("[workspace.package]"):re.search(r"^\[package\]", workspace, re.M).start()]
    (COPY / "Cargo.toml").write_text(
        '[workspace]\nmembers = ["crates/model"]\n\n' + shared
        + '[package]\nname = "broken-rules"\nversion.workspace = true\nedition.workspace = true\npublish = false\n\n'
        '[dependencies]\ncountersign-model = { path = "crates/model" }\n'
        "chrono.workspace = true\nserde_json.workspace = true\n"
    )
    # The benchmark is not copied.
    manifest = COPY / "crates/model/Cargo.toml"
    manifest.write_text(manifest.read_text().split("# Beside the other benchmarks")[0])


def run():
    """Whether the scenarios pass. What does not compile is no broken rule."""
    command = ["cargo", "test", "--quiet", "--offline", "--test", "sales"]
    built = subprocess.run([*command, "--no-run"], cwd=COPY, capture_output=True, text=True)
    if built.returncode:
        sys.exit(built.stderr)
    return subprocess.run(command, cwd=COPY, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
