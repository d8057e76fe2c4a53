"""What sales grant, written a second time: the judge of `crates/model/src/sale`, which `tests/external/sales.rs` compares with it.

A fact is what a shop said about one of its objects. `Facts.take` takes facts in any order and any number of times; `licenses()`
says what they grant on a day. It is short rather than fast, and shares nothing with the program. Times are ISO text of one
precision and compare as text.
"""
from dataclasses import dataclass, field
from datetime import date, timedelta

NEVER = "9999-12-31"


@dataclass(frozen=True)
class Offer:
    name: str
    modules: tuple = ()
    sites: int = 1
    period: object = "1y"            # "1m", "1y", "lifetime", or "subscription": sold by subscription only
    quantity: str = "licenses"       # or "sites"
    grace: int = 3                   # days
    nothing: bool = False


def plus(day, period):
    if day[:10] == NEVER or period == "lifetime":
        return NEVER
    d = date.fromisoformat(day[:10])
    n, unit = int(period[:-1]), period[-1]
    if unit == "d":
        return (d + timedelta(days=n)).isoformat()
    months = n * (12 if unit == "y" else 1)
    y, m = divmod(d.month - 1 + months, 12)
    y, m = d.year + y, m + 1
    for day_ in range(d.day, 27, -1):
        try:
            return date(y, m, day_).isoformat()
        except ValueError:
            pass
    return date(y, m, d.day).isoformat()


def rank(word):
    """Of two words of one moment the more generous counts; then any fixed order. Never the order of arrival."""
    generous = {"active": 3, "trialing": 3, "paid": 3, "won": 3, "reversed": 3, "past_due": 2, "on-hold": 1}
    return (word["at"], generous.get(word.get("status"), 0), repr(sorted(word.items(), key=str)))


def first_place(words):
    """The license that the first of these words in the order of places was bought for: `s#0` before `c1:year.0`."""
    def key(name):
        if "#" in name:
            sub, number = name.split("#")
            return (0, int(number), sub, "")
        payment, line = name.split(":")
        price, number = line.rsplit(".", 1)
        return (1, int(number), payment, price)
    return min((w["license"] for w in words if w.get("license")), key=key, default=None)


class Facts:
    """The newest word about each object, and sets that only grow: the order of facts changes nothing, nor does a second copy."""

    def __init__(self):
        self.words = {}          # (kind, id) -> newest word
        self.ends = {}           # subscription -> {(at, end)}: ends that it named while it went on (Lemon Squeezy, WooCommerce)
        self.free = {}           # subscription -> {(from, to)}: periods that the shop gives away (collection paused)
        self.claims = {}         # subscription -> products that it names or named
        self.alias = {}          # name -> name (union-find)
        self.slots = {}          # root subscription -> [item, ...]: place number -> item that holds it
        self.terms = {}          # (sale, price) -> offer as it was when first seen: edits of an offer change nothing sold
        self.edits = {}          # place -> {field: (value, base)}
        self.offers = {}

    # -- taking facts ------------------------------------------------------------------------------------------------
    def root(self, name):
        while name in self.alias:
            name = self.alias[name]
        return name

    def join(self, a, b):
        a, b = sorted([self.root(a), self.root(b)])
        if a != b:
            self.alias[b] = a

    def take(self, w):
        kind = w["w"]
        if kind == "offers":
            self.offers = dict(w["offers"])
            return
        if kind == "regrant":                      # a person's command: what was sold under these prices gets today's terms
            for key in [k for k in self.terms if k[1] in w["prices"]]:
                self.terms[key] = self.offers[key[1]]
            return
        if kind == "edit":
            self._edit(w)
            return
        if kind == "alias":
            self.join(*w["names"])
            return
        for name in w.get("names", []):
            self.join(w.get("of", w["id"]), name)
        key = (kind, w["id"])
        if key not in self.words or rank(w) > rank(self.words[key]):
            self.words[key] = w
        if kind == "sub":
            self.claims.setdefault(w["id"], set()).update(i["product"] for i in w["items"])
            self.claims[w["id"]].update(w.get("removed", []))
            if w.get("ends") and w["status"] in ("active", "trialing", "pending-cancel"):
                self.ends.setdefault(w["id"], set()).add((w["at"], w["ends"]))
            if w.get("free"):
                self.free.setdefault(w["id"], set()).add(tuple(w["free"]))
        self._fix_terms()
        self._assign()

    def _edit(self, w):
        lic = self.licenses(w["day"], raw=True)[w["place"]]
        mine = self.edits.setdefault(w["place"], {})
        for f, value in w["set"].items():
            if f == "modules":                     # each module is a field of its own
                for m in set(lic["modules"]) ^ set(value):
                    mine[("module", m)] = (m in value, m in lic["modules"])
            else:
                mine[f] = (value, lic[f])

    # -- reading -----------------------------------------------------------------------------------------------------
    def of_kind(self, kind):
        return [w for (k, _), w in sorted(self.words.items()) if k == kind]

    def _lines(self):
        for w in self.of_kind("payment"):
            yield from ((w, line) for line in w.get("lines", []))
        for w in self.of_kind("sub"):
            yield from ((w, line) for line in w["items"])

    def sale(self, w, line):
        if w["w"] == "sub":
            return self.chain(w["id"])
        return self.chain(w["sub"]) if line["kind"] == "recurring" else self.root(w["id"])

    def _fix_terms(self):
        for w, line in self._lines():
            offer, sale = self.offers.get(line["price"]), self.sale(w, line)
            if offer is not None and self.terms_of(sale, line["price"]) is None:
                self.terms[sale, line["price"]] = offer

    def terms_of(self, sale, price):
        """What this price granted when this sale first named it. Names that became one keep what either had."""
        known = self.terms.get((sale, price))
        return known or next((o for (s, p), o in sorted(self.terms.items(), key=str) if p == price and self.root(s) == sale), None)

    def chain(self, sub):
        """The first subscription that this one goes on from (resubscribed)."""
        word = self.words.get(("sub", sub))
        seen = {sub}
        while word and word.get("resubscribes") and word["resubscribes"] not in seen:
            sub = word["resubscribes"]
            seen.add(sub)
            word = self.words.get(("sub", sub))
        return sub

    def newest_sub(self, root):
        words = [w for w in self.of_kind("sub") if self.chain(w["id"]) == root]
        followed = {w.get("resubscribes") for w in words}
        return max((w for w in words if w["id"] not in followed), key=rank, default=None)

    def members(self, root):
        subs = {w["id"] for w in self.of_kind("sub") if self.chain(w["id"]) == root} | {root}
        return subs

    def groups(self):
        """Payments: all names of one payment are one."""
        groups = {}
        for w in self.of_kind("payment"):
            g = groups.setdefault(self.root(w["id"]), {"words": [], "refunds": [], "disputes": []})
            g["words"].append(w)
        for kind, key in (("refund", "refunds"), ("dispute", "disputes")):
            for w in self.of_kind(kind):
                g = groups.get(self.root(w["of"]))
                if g:
                    g[key].append(w)
        for name, g in groups.items():
            paid = [w for w in g["words"] if w.get("paid")]
            g["name"], g["paid"] = name, min((w["paid"] for w in paid), default=None)
            g["amount"] = max((w.get("amount", 1) for w in g["words"]), default=1)
            back = sum(r["amount"] for r in g["refunds"] if r["status"] == "approved")
            g["whole"] = g["amount"] > 0 and back >= g["amount"]
            g["part"] = 0 < back < g["amount"]
            newest = max(g["disputes"], key=rank, default=None)
            g["disputed"] = newest is not None and newest["status"] in ("open", "lost")
            ok = bool(paid) and all(w.get("ok", True) for w in g["words"])
            g["stands"] = ok and not g["whole"] and not g["disputed"]
        return {n: g for n, g in groups.items() if g["paid"]}

    def _assign(self):
        """Places of a subscription: an item keeps its place; then its product; a new one takes a place that nobody holds."""
        roots = {self.chain(w["id"]) for w in self.of_kind("sub")}
        roots |= {self.chain(w["sub"]) for w in self.of_kind("payment") if w.get("sub")}
        for root in sorted(roots):
            now = self.sold_now(root)
            places = self.slots.setdefault(root, [])
            held = {i["item"] for i in now}
            left = []
            for i in now:
                if any(p["item"] == i["item"] for p in places):
                    places[[p["item"] for p in places].index(i["item"])] = i
                else:
                    left.append(i)
            for same in (True, False):
                for i in list(left):
                    for n, p in enumerate(places):
                        if p["item"] not in held and (p["product"] == i["product"] or not same):
                            places[n] = i
                            left.remove(i)
                            break
            places.extend(left)

    def sold_now(self, root):
        sub = self.newest_sub(root)
        if sub is not None:
            return sub["items"]
        paid = [(g["paid"], g["name"], [l for w in g["words"] for l in w["lines"]
                                        if l["kind"] == "recurring" and l.get("amount", 1) >= 0])
                for g in self.groups().values() if any(w.get("sub") and self.chain(w["sub"]) == root for w in g["words"])]
        lines = max((p for p in paid if p[2]), key=lambda p: p[:2], default=("", "", []))[2]
        by_item = {}                                 # an invoice may have a prorated and a whole line of one item: it is sold once
        for l in sorted(lines, key=lambda l: (l["from"], l.get("to") or "")):
            by_item[l["item"]] = l
        return list(by_item.values())

    # -- deriving ----------------------------------------------------------------------------------------------------
    def sub_end(self, root, item):
        """(end, stands, known) of one line of a subscription."""
        subs = self.members(root)
        groups = self.payments_of(root)
        ends = sorted(e for s in subs for e in self.ends.get(s, ()))
        if ends:                                                    # the subscription says its end (Lemon Squeezy, WooCommerce)
            standing = [g["paid"] for g in groups if g["stands"]]
            newest = max(standing, default="")
            later = [g["paid"] for g in groups if not g["stands"] and g["paid"] > newest]
            if (groups and not standing) or not later:
                return ends[-1][1][:10], not groups or bool(standing), True
            # The end that it named before the first payment that fell; if none is known, the day of that payment.
            before = [e for e in ends if e[0] < min(later)]
            return (before[-1][1] if before else min(later))[:10], True, True
        stretches = []
        for g in groups:
            for w in g["words"]:
                for l in w["lines"]:
                    if l["kind"] != "recurring" or l.get("amount", 1) < 0 or not l.get("to"):
                        continue
                    stretches.append((l["from"], l["to"], l["item"], g["stands"], l.get("amount", 1), g["name"]))
        for s in subs:
            stretches += [(a, b, None, True, 0, "free") for a, b in self.free.get(s, ())]
        own = [s for s in stretches if s[2] in (item, None)]
        if not any(s[2] == item for s in own):
            own = stretches
        if not own:
            return None, False, False
        standing = [s for s in own if s[3]]
        if not standing:
            return max(s[1] for s in own)[:10], False, True
        newest = max(standing, key=lambda s: (s[0], s[1], s[5]))
        end = newest[1]
        end = min([end, *(s[1] for s in own if not s[3] and s[0] > newest[0])])       # a refund never makes it longer
        sub = self.newest_sub(root)
        if sub and sub.get("ended") and newest[4] == 0:                               # what cost nothing ends with it
            end = min(end, sub["ended"])
        return end[:10], True, True

    def paid_up(self, root):
        """Whether the newest payment of the subscription stands: else there is no grace."""
        groups = self.payments_of(root)
        return max(groups, key=lambda g: (g["paid"], g["name"]))["stands"] if groups else True

    def payments_of(self, root):
        subs = self.members(root)
        groups = [g for g in self.groups().values()
                  if any(w.get("sub") in subs or subs & set(w.get("renews", [])) for w in g["words"])]
        parents = {w.get("parent") for s in subs if (w := self.words.get(("sub", s)))} - {None}
        return groups + [g for g in self.groups().values() if g not in groups and any(w["id"] in parents for w in g["words"])]

    def licenses(self, day, raw=False):
        out, told = {}, set()
        groups = self.groups()

        def grant(place, license, sale, price, quantity, end, stands, sub=None, paid="", since="", lasts=None, sold=True,
                  paid_up=True):
            offer = self.terms_of(sale, price)
            if offer is None:
                if sold:
                    told.add(("no offer", price))
                return
            if offer.nothing:
                return
            n, factor = (quantity, 1) if offer.quantity == "licenses" else (1, quantity)
            for copy in range(n):
                # The first copy is for the license that it was bought for.
                out.setdefault(f"{license if license and copy == 0 else place}/{copy}", []).append(dict(
                    modules=offer.modules, sites=offer.sites * factor, end=end, stands=stands, sub=sub, paid=paid, offer=offer,
                    lasts=lasts, sold=sold, paid_up=paid_up, since=since))

        # Subscriptions.
        issued = set()
        for root, places in sorted(self.slots.items()):
            sub, now, paid_up = self.newest_sub(root), self.sold_now(root), self.paid_up(root)
            for n, p in enumerate(places):
                line = next((i for i in now if i["item"] == p["item"]), None)
                end, stands, known = self.sub_end(root, p["item"])
                if not known:
                    continue
                # A link to buy for a license names it in the session alone.
                sessions = [w for w in self.of_kind("session") if self.chain(w["sub"]) == root]
                members = [w for w in self.of_kind("sub") if self.chain(w["id"]) == root]
                license = first_place(members) or first_place(sessions)
                groups_of_sub = self.payments_of(root)
                since = min((g["paid"] for g in groups_of_sub), default="")
                # Paused, it adds nothing to a license that something else was bought for.
                paused = sub is not None and sub["status"] == "paused" and not sub.get("free")
                if line is None:                                     # not sold any more
                    grant(f"{root}#{n}", license, root, p["price"], p["quantity"], end, False, sub, since=since, sold=False,
                          paid_up=paid_up)
                else:
                    newest = max((g["paid"] for g in groups_of_sub if g["stands"]), default="")
                    grant(f"{root}#{n}", license, root, line["price"], line["quantity"], end, stands and not paused, sub, newest,
                          since=since, paid_up=paid_up)
        # What is paid once: an order line that no subscription claims. Several names of one payment say the same lines.
        claimed = {}
        for w in self.of_kind("sub"):
            claimed.setdefault(w.get("parent"), set()).update(self.claims[w["id"]])
        for name, g in sorted(groups.items()):
            lines = {}
            for w in g["words"]:
                seen = {}
                for l in w["lines"]:
                    if l["kind"] != "once" or l["product"] in claimed.get(w["id"], ()) or w.get("renews"):
                        continue
                    k = seen[l["price"]] = seen.get(l["price"], -1) + 1
                    old = lines.get((l["price"], k))
                    lines[l["price"], k] = {**l, "license": w.get("license"),
                                            "quantity": max(l["quantity"], old["quantity"] if old else 0)}
            for (price, k), l in sorted(lines.items()):
                offer = self.terms_of(name, price)
                if offer is not None and offer.period == "subscription":
                    continue                                         # its subscription grants it
                grant(f"{name}:{price}.{k}", l["license"], name, price, l["quantity"], None, g["stands"], None, g["paid"],
                      g["paid"], (offer or Offer("")).period)
        for g in groups.values():
            if g["part"]:
                told.add(("partial refund", g["name"]))

        result = {}
        for place, lines in sorted(out.items()):
            standing = [l for l in lines if l["stands"]]
            terms = max(standing or lines, key=lambda l: (l["paid"], l["sites"]))
            # What is paid once adds its time to what the same offer granted before; the latest end counts.
            ends = {}
            for l in sorted(standing or lines, key=lambda l: (l["since"], l["lasts"] is not None)):
                before = ends.get(l["offer"].name, "")
                ends[l["offer"].name] = (plus(max(before, l["paid"][:10]), l["lasts"]) if l["lasts"]
                                         else max(before, l["end"]))
            end = max(ends.values())
            lic = dict(modules=terms["modules"], sites=terms["sites"], end=end)
            if not raw:
                self._follow_people(place, lic)
            status, until = "active", lic["end"]
            sub = terms["sub"]
            if not standing:
                status = "suspended"
            elif (sub is not None and sub["status"] in ("active", "trialing", "past_due", "on-hold")
                  and sub.get("renewing", True) and terms["paid_up"]):
                until = plus(until, f"{terms['offer'].grace}d")
            if status == "active" and day > until:
                status = "expired"
            sold = any(l["sold"] for l in lines)
            result[place] = {**lic, "status": status, "until": until, "sold": sold}
        if raw:
            return result
        return result, told

    def _follow_people(self, place, lic):
        """What a person set stays while the shop says what it said then; a later end stays until the shop's is later."""
        modules = set(lic["modules"])
        for f, (value, base) in self.edits.get(place, {}).items():
            if isinstance(f, tuple):
                if (f[1] in modules) == base:
                    modules = modules | {f[1]} if value else modules - {f[1]}
            elif f == "end" and value >= base:
                lic["end"] = max(value, lic["end"])
            elif lic[f] == base:
                lic[f] = value
        lic["modules"] = tuple(sorted(modules))


def fold(events, offers):
    facts = Facts()
    facts.offers = dict(offers)
    for e in events:
        facts.take(e)
    return facts


def offers_of(texts):
    return {price: Offer(**{**offer, "modules": tuple(offer["modules"])}) for price, offer in texts.items()}


def shown(facts, day):
    """What the customer has. Two arrivals may number places differently, and a place that nothing holds any more was given only
    where its item was known in time: so neither counts."""
    result, told = facts.licenses(day)
    sold = sorted((l["status"], "+".join(l["modules"]), l["sites"], l["end"]) for l in result.values() if l["sold"])
    return sold, sorted(told)
