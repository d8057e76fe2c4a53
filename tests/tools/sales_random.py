"""Random sets of facts, and what they grant by `sales_model.py`.

Usage: sales_random.py SEED COUNT

The first line has the offers; each other line has a set, in the form of tests/data/sales/scenarios.jsonl. One seed gives the
same sets on every machine.

Shops and customers do what they do: invoices fail, are refunded in parts and as a whole, disputed and won; items come, go and
change their price; subscriptions pause, end, and are bought again. One fact in twelve is lost.

Three things are left out, because no rule decides them, and the order of arrival would:
- Times of one kind never tie: each moment is used once.
- What is bought for a license names a place that is not numbered by arrival: a line of an order, or the only item that its
  subscription ever has. A subscription that is bought for a license has one item, too: of two, both would be that license.
- All words and names of one payment or subscription that is bought for a license say for which. In the model a later word
  without it takes it away; in the program it does not.
"""

import datetime
import json
import random
import sys

import sales_model

OFFERS = {
    "pm": dict(name="pro-month", modules=["forms"], sites=1, period="1m", grace=3),
    "py": dict(name="pro-year", modules=["forms"], sites=1, period="1y", grace=10),
    "am": dict(name="agency-month", modules=["forms", "maps"], sites=20, period="1m", grace=3),
    "ay": dict(name="agency-year", modules=["forms", "maps"], sites=20, period="1y", grace=0),
    "pack": dict(name="pack", modules=["maps"], sites=3, period="1y", grace=3, quantity="sites"),
    "life": dict(name="life", modules=["maps"], sites=1, period="lifetime", grace=0),
    "year": dict(name="year", modules=["forms"], sites=1, period="1y", grace=0),
    "seats": dict(name="seats", modules=["forms"], sites=2, period="1y", grace=0, quantity="sites"),
    "setup": dict(name="setup", modules=[], sites=1, period="1y", grace=0, nothing=True),
    "sa": dict(name="sub-a", modules=["forms"], sites=1, period="subscription", grace=3),
    "sb": dict(name="sub-b", modules=["forms", "maps"], sites=20, period="subscription", grace=3),
}
OFFERS = {price: {"quantity": "licenses", "nothing": False, **offer} for price, offer in OFFERS.items()}
RECURRING = ["pm", "py", "am", "ay", "pack", "setup"]
NAMED = ["sa", "sb", "pm", "am"]
ONCE = ["year", "life", "seats", "pm", "setup", "none"]
LENGTHS = {"pm": 31, "am": 31, "setup": 31, "none": 31, "sa": 31, "sb": 31, "py": 365, "ay": 365, "pack": 365}
START = datetime.datetime(2026, 1, 1)


class Customer:
    def __init__(self, numbers):
        self.numbers = numbers
        self.facts = []
        self.used = set()
        self.count = 0
        self.targets = []        # places that something may be bought for

    def chance(self, percent):
        return self.numbers.randrange(100) < percent

    def pick(self, things):
        return things[self.numbers.randrange(len(things))]

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def time(self, day):
        """A moment of this day that nothing else uses."""
        while True:
            moment = START + datetime.timedelta(days=int(day), minutes=self.numbers.randrange(1440))
            if moment not in self.used:
                self.used.add(moment)
                return moment.strftime("%Y-%m-%dT%H:%M")

    def say(self, kind, **fact):
        self.facts.append({"w": kind, **fact})

    def later(self, day):
        return day + self.numbers.randrange(1, 40)

    # -- payments ------------------------------------------------------------------------------------------------------------
    def pay(self, kind, day, lines, sub=None, license=None, amount=None, **more):
        """A payment with all its words, its other names, and what becomes of it."""
        name = self.name(kind)
        amount = self.pick([100, 100, 100, 250, 0]) if amount is None else amount
        if amount == 0:
            lines = [{**line, "amount": 0} if line["kind"] == "recurring" else line for line in lines]
        word = dict(id=name, lines=lines, sub=sub, amount=amount, ok=True, **more)
        if license:
            word["license"] = license
        names = [name]
        if self.chance(40):
            names.append(self.name("z"))                       # sorts behind: the smallest name is that of a payment
            if self.chance(50):
                self.say("alias", names=self.numbers.sample(names, 2))
            else:
                word["names"] = names[1:]
        paid = None
        if self.chance(93):
            paid = self.time(day)
        if paid is None or self.chance(20):                    # a word before it was paid
            self.say("payment", at=self.time(day - 1), paid=None, **word)
        if paid:
            self.say("payment", at=self.time(day), paid=paid, **word)
            if self.chance(12):                                # the shop changes its mind about it
                for _ in range(self.numbers.randrange(1, 3)):
                    word["ok"] = not word["ok"]
                    day = self.later(day)
                    self.say("payment", at=self.time(day), paid=paid, **word)
            if self.chance(8) and lines:                       # its lines were corrected
                changed = [{**line, "quantity": self.numbers.randrange(1, 4)} for line in lines]
                self.say("payment", at=self.time(day + 1), paid=paid, **{**word, "lines": changed})
        if kind == "c" and self.chance(30):                    # a session and its invoice say the same lines
            twin = self.name("x")
            same = [{**line, "quantity": self.numbers.randrange(1, 4)} if self.chance(30) else line for line in lines]
            self.say("payment", at=self.time(day), paid=self.time(day), **{**word, "id": twin, "lines": same, "names": [name]})
            names.append(twin)
        self.take_back(names, day, amount)
        return name

    def take_back(self, names, day, amount):
        """Refunds, credits and disputes of a payment."""
        of = lambda: dict(of=self.pick(names), **({"names": [self.pick(names)]} if self.chance(20) else {}))
        if self.chance(22):
            parts = self.pick([[100], [100], [30], [50, 50], [40, 40], [60, 60], [100, 100], [0]])
            for part in parts:
                refund, day = self.name("r"), self.later(day)
                size = (part * amount + 99) // 100
                for status in self.pick([["approved"], ["approved"], ["pending"], ["pending", "approved"], ["approved", "failed"]]):
                    self.say("refund", id=refund, at=self.time(day), amount=size, status=status, **of())
                    day += 1
        if self.chance(10):
            for _ in range(self.pick([1, 1, 2])):
                dispute, day = self.name("d"), self.later(day)
                for status in self.pick([["open"], ["lost"], ["open", "won"], ["open", "lost"], ["open", "won", "lost"]]):
                    self.say("dispute", id=dispute, at=self.time(day), status=status, **of())
                    day += 3

    def line(self, price, day, length=None, item=None, product=None, **more):
        if length is None:
            line = dict(kind="once", item=item or price, price=price, product=product or price, quantity=1)
        else:
            line = dict(kind="recurring", item=item, price=price, product=product or item, amount=100, prorated=False, quantity=1)
            line["from"], line["to"] = self.time(day), self.time(day + length)
        return {**line, **more}

    # -- what is paid once ---------------------------------------------------------------------------------------------------
    def order(self, day):
        license = self.pick(self.targets) if self.targets and self.chance(60) else None
        prices = [self.pick(ONCE)] if license else [self.pick(ONCE) for _ in range(self.numbers.randrange(1, 4))]
        quantity = lambda: self.pick([1, 1, 1, 2, 3])
        lines = [self.line(price, day, quantity=1 if license else quantity()) for price in prices]
        name = self.pay("c", day, lines, license=license)
        if not license:
            self.targets.append(f"{name}:{self.pick(prices)}.0")

    # -- subscriptions of shops that name periods -----------------------------------------------------------------------------
    def periods(self, day):
        sub = self.name("s")
        license = self.pick(self.targets) if self.targets and self.chance(25) else None
        is_fixed = bool(license) or self.chance(30)
        items = {}
        for _ in range(1 if is_fixed else self.numbers.randrange(1, 4)):
            self.add_item(items)
        if not is_fixed and self.chance(15):
            # An extra without an offer.
            items[self.name("i")] = dict(price="none", product="extra", quantity=1)
        if is_fixed and not license:
            self.targets.append(f"{sub}#0")
        removed = []
        of = dict(license=license) if license else {}
        if license and self.chance(60):
            self.say("session", id=self.name("k"), at=self.time(day), sub=sub, license=license)
            if self.chance(50):
                of = {}
        for number in range(self.numbers.randrange(1, 6)):
            length = min(LENGTHS[item["price"]] for item in items.values())
            lines = [self.line(item["price"], day, length, name, item["product"], quantity=item["quantity"])
                     for name, item in items.items()]
            if self.chance(85):
                self.pay("p", day, lines, sub, amount=0 if number == 0 and self.chance(20) else None)
            self.subscription(sub, day, items, removed, of)
            if not is_fixed and self.chance(35):
                day += self.numbers.randrange(2, max(3, min(length, 200)))
                self.change_items(sub, day, length, items, removed)
                self.subscription(sub, day, items, removed, of)
            if is_fixed and self.chance(25):
                for item in items.values():
                    item["price"] = self.pick(RECURRING)
            day += length

    def add_item(self, items):
        price = self.pick(RECURRING)
        item = self.name("i")
        items[item] = dict(price=price, product=self.pick([item, "forms", "maps"]), quantity=self.pick([1, 1, 1, 2]))
        return item

    def change_items(self, sub, day, length, items, removed):
        own = [name for name, item in items.items() if item["price"] != "none"]
        lines = []
        what = self.numbers.randrange(4)
        if what == 0:
            name = self.add_item(items)
        elif what == 1 and len(own) > 1:
            gone = self.pick(own)
            removed.append(items.pop(gone)["product"])
            return
        elif what == 2:                                        # another item takes its place
            gone = self.pick(own)
            product = items.pop(gone)["product"]
            name = self.add_item(items)
            if self.chance(50):
                items[name]["product"] = product
            lines.append(self.line(self.pick(RECURRING), day, length, gone, product, amount=-40, prorated=True))
        else:
            name = self.pick(own)
            items[name]["price"] = self.pick(RECURRING)
            items[name]["quantity"] = self.pick([1, 1, 2, 3])
        item = items[name]
        more = dict(quantity=item["quantity"], prorated=self.chance(70))
        lines.append(self.line(item["price"], day, length, name, item["product"], **more))
        if self.chance(70):
            self.pay("p", day, lines, sub)

    def subscription(self, sub, day, items, removed, of):
        for _ in range(self.pick([1, 1, 2])):
            status = self.pick(["active"] * 6 + ["trialing", "past_due", "paused", "unpaid", "canceled"])
            word = dict(id=sub, status=status, items=[dict(item=name, **item) for name, item in items.items()], **of)
            word["at"] = self.time(day)
            if removed and self.chance(50):
                word["removed"] = list(removed)
            if self.chance(15):
                word["renewing"] = False
            if status == "canceled":
                word["ended"] = self.time(day)
            if self.chance(6):
                word["free"] = [self.time(day), self.time(day + self.numbers.randrange(5, 90))]
            self.say("sub", **word)
            day += self.numbers.randrange(1, 12)

    # -- subscriptions of shops that name their end ----------------------------------------------------------------------------
    def named(self, day, before=None):
        sub = self.name("s")
        license = None
        if before is None and self.targets and self.chance(20):
            license = self.pick(self.targets)
        prices = [self.pick(NAMED) for _ in range(1 if license else self.pick([1, 1, 2]))]
        items = [dict(item=f"{sub}/{number}", price=price, product=self.pick([price, "forms"]), quantity=self.pick([1, 1, 2]))
                 for number, price in enumerate(prices)]
        parent = None
        if self.chance(85):
            lines = [self.line(item["price"], day, product=item["product"], quantity=item["quantity"]) for item in items]
            if self.chance(30):
                lines.append(self.line(self.pick(ONCE), day))
            parent = self.pay("o", day, lines)
        others = [self.pick(self.subs)] if self.subs and self.chance(10) else []
        if before is None:
            self.subs.append(sub)
        removed = []
        for number in range(self.numbers.randrange(1, 6)):
            if number and self.chance(85):
                how = dict(sub=sub) if self.chance(40) else dict(renews=[sub, *others])
                lines = [self.line(items[0]["price"], day)] if "renews" in how and self.chance(40) else []
                self.pay("w", day, lines, **how)
            for _ in range(self.pick([1, 1, 2])):
                others_too = ["trialing", "past_due", "on-hold", "pending-cancel", "cancelled", "expired", "paused"]
                status = self.pick(["active"] * 6 + others_too)
                word = dict(id=sub, at=self.time(day), status=status, items=list(items))
                if parent:
                    word["parent"] = parent
                if before:
                    word["resubscribes"] = before
                if license:
                    word["license"] = license
                if removed:
                    word["removed"] = list(removed)
                if self.chance(85):
                    word["ends"] = self.time(day + self.numbers.randrange(20, 45))
                if status in ("pending-cancel", "cancelled", "expired") or self.chance(10):
                    word["renewing"] = False
                if self.chance(4):
                    word["free"] = [self.time(day), self.time(day + 60)]
                self.say("sub", **word)
                day += self.numbers.randrange(0, 5)
            if not license and self.chance(15):                # switched to another variation
                old = items[-1]
                items[-1] = dict(item=self.pick([old["item"], f"{sub}/n{number}"]), price=self.pick(NAMED),
                                 product=self.pick([old["product"], "agency"]), quantity=1)
                removed.append(old["product"])
            day += 31
        if self.chance(20):
            self.named(day, before=sub)

    def everything(self):
        self.subs = []
        for _ in range(self.pick([1, 1, 2, 2, 3])):
            day = self.numbers.randrange(5, 300)
            self.pick([self.order, self.periods, self.named])(day)
        if self.targets and self.chance(50):
            self.order(self.numbers.randrange(5, 500))
        kept = [fact for fact in self.facts if not self.chance(8)]
        return kept[:60] or self.facts[:1]


def main():
    numbers = random.Random(int(sys.argv[1]))
    offers = sales_model.offers_of(OFFERS)
    print(json.dumps({"offers": OFFERS}))
    for _ in range(int(sys.argv[2])):
        facts = Customer(numbers).everything()
        moment = START + datetime.timedelta(days=numbers.randrange(5, 700))
        day = moment.strftime("%Y-%m-%d")
        licenses, told = sales_model.shown(sales_model.fold(facts, offers), day)
        print(json.dumps({"day": day, "facts": facts, "licenses": licenses, "told": told}))


main()
