//! The list of licenses, the newest first, and what finds one: an address, a name, a site, an order, an id or a key.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use askama::Template;
use chrono::NaiveDate;

use crate::serve::api::licenses::list::WantedOrder;
use crate::serve::api::licenses::reports;
use crate::serve::background::TimeSlice;
use crate::serve::desk::asked::Asked;
use crate::serve::desk::figures::{LicenseFigures, LicenseMarks};
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::kept_figures::{self, COUNTS_FOR, DAYS};
use crate::serve::desk::license_list::{EndsFilter, LicenseList, ListPlace, PAGE, SeatsFilter, TermsFilter};
use crate::serve::desk::license_rows::{LicenseRow, ShownHosts};
use crate::serve::desk::sales_look::WaitingSales;
use crate::serve::found_license::{self, FoundLicense};
use crate::serve::gate::Snapshot;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{address, counted, grouped};
use crate::serve::state::Service;
use countersign_ledger::Ledger;
use countersign_model::customer::{CustomerAddress, CustomerRow};
use countersign_model::desk_person::DeskRole;
use countersign_model::issued_license::Hex128;
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::text::outside_text::OutsideText;
use countersign_model::text::{contains_folded, folded};

/// The most customers that a text finds.
const MOST_CUSTOMERS: usize = 1_000;

/// A list of a ledger with so many licenses is kept for a while, because a look at all of them takes long.
const MANY: usize = 50_000;

/// So much of a list is kept: twenty pages.
const MOST_KEPT: usize = 20 * PAGE;

/// The fewest digits of an id that find a license.
const FEWEST_DIGITS: usize = 8;

/// The longest text that is looked for, in bytes.
const MAX_TEXT: usize = 300;

const DECLARED: i64 = i64::MIN;

#[derive(Template)]
#[template(path = "desk/licenses.html")]
struct LicensesPage {
    frame: PageFrame,
    /// How many licenses match, as words.
    said: String,
    query: OutsideText,
    /// Where orders that wait are found by the same text, and how many, if no license is.
    waiting: Option<(String, String)>,
    plugins: Vec<FilterChoice>,
    states: Vec<FilterChoice>,
    ends: Vec<FilterChoice>,
    seats: &'static str,
    /// The version that sites of these licenses run, where a plugin is chosen.
    runs: Option<OutsideText>,
    /// The address of the same list as a file, for who may export.
    export: Option<String>,
    tabs: Vec<QuickFilter>,
    rows: Vec<LicenseRow>,
    /// The address of what follows.
    older: Option<String>,
}

/// A choice of a filter.
struct FilterChoice {
    value: String,
    word: OutsideText,
    is_chosen: bool,
}

/// A filter beside the form, with its count.
struct QuickFilter {
    path: &'static str,
    word: &'static str,
    count: String,
    is_here: bool,
}

/// What the list shows.
#[derive(Clone, Default)]
struct ListFilter {
    /// The licenses that a text found.
    wanted: Option<HashSet<LicenseId>>,
    /// The sites that run a version, by license.
    running: Option<Arc<RunningSites>>,
    terms: TermsFilter,
}

pub(super) type RunningSites = HashMap<LicenseId, Vec<SiteHost>>;

const STATES: [(&str, &str, LicenseState); 4] = [
    ("active", "Active", LicenseState::Active),
    ("expired", "Expired", LicenseState::Expired),
    ("suspended", "Suspended", LicenseState::Suspended),
    ("revoked", "Revoked", LicenseState::Revoked),
];

const ENDS: [(&str, &str, EndsFilter); 4] = [
    ("7", "within 7 days", EndsFilter::Within(7)),
    ("30", "within 30 days", EndsFilter::Within(30)),
    ("90", "within 90 days", EndsFilter::Within(90)),
    ("never", "never", EndsFilter::Never),
];

/// The list, or the one license that a key or an id names.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let query = asked.fields.get("q");
    if query.len() > MAX_TEXT {
        return Err(PageProblem::refused("What you look for is too long.".to_owned()).back_to("/licenses".to_owned()));
    }
    asked.state.service.catch_up().await;
    if let Some(id) = named_license(asked, query) {
        return Ok(PageAnswer::SeeOther(format!("/licenses/{id}")));
    }
    let filter = filter(asked).await?;
    let chosen = |name| asked.fields.get(name);
    let found = found(asked, &filter, place(chosen("after"))).await?;
    let figures = kept_figures::licenses(asked).await?;
    let has_more = found.places.len() > PAGE;
    let shown = &found.places[..found.places.len().min(PAGE)];
    let ids = shown.iter().map(|(_, id)| *id);
    let ids: Vec<_> = ids.filter(|id| takes_now(asked, &filter, id)).collect();
    let mut rows = LicenseRow::of_ids(asked, &ids).await?;
    if let Some(running) = &filter.running {
        for row in &mut rows {
            row.running = ShownHosts::of(running.get(&row.id).map_or(&[], Vec::as_slice));
        }
    }
    let last = shown.last().filter(|_| has_more);
    Ok(PageAnswer::ok(&LicensesPage {
        frame: asked.frame("Licenses", NavEntry::Licenses),
        said: match &filter.running {
            Some(running) => format!(
                "{} of {} within {DAYS} days",
                counted(running.values().map(Vec::len).sum(), "site"),
                counted(found.matching, "license"),
            ),
            None => format!("{}, newest first", counted(found.matching, "license")),
        },
        runs: (filter.terms.module.is_some()).then(|| OutsideText::of(chosen("runs"))),
        // A key is shown nowhere.
        query: OutsideText::of(if LicenseKey::is_in(query) { "" } else { query }),
        waiting: waiting_orders(asked, query, rows.is_empty()).await?,
        plugins: plugin_choices(asked),
        states: choices("Any", &STATES.map(|(value, word, _)| (value, word)), chosen("state")),
        ends: choices("Any time", &ENDS.map(|(value, word, _)| (value, word)), chosen("ends")),
        seats: match filter.terms.seats {
            Some(SeatsFilter::Full) => "full",
            Some(SeatsFilter::Unused) => "none",
            None => "",
        },
        export: asked
            .visitor
            .may(DeskRole::Admin)
            .then(|| format!("/licenses.csv?{}", filters(asked).finish())),
        tabs: tabs(asked, &figures),
        rows,
        older: last.map(|place| older(asked, place)),
    }))
}

/// The address of a search among the orders that wait, and how many it finds, where a search of licenses found none.
async fn waiting_orders(
    asked: &Asked<'_>,
    query: &str,
    is_needed: bool,
) -> Result<Option<(String, String)>, PageProblem> {
    let query = bare_order(query);
    if query.is_empty() || !is_needed || LicenseKey::is_in(query) {
        return Ok(None);
    }
    let wanted = folded(query);
    let sees = asked.visitor.sees_customers();
    let WaitingSales { sales, parked } = WaitingSales::now(asked).await?;
    let orders = sales.iter().map(|wait| (wait.delivery, &wait.order));
    let orders = orders.chain(parked.iter().map(|parked| (Some(parked.id), &parked.order)));
    let mut known = HashSet::new();
    let found = orders.filter(|(delivery, order)| {
        order.contains(&wanted, sees) && delivery.is_none_or(|delivery| known.insert(delivery))
    });
    Ok(match found.count() {
        0 => None,
        1 => Some((
            address("/sales", &[("find", query)]),
            "1 waiting order is like this".to_owned(),
        )),
        count => Some((
            address("/sales", &[("find", query)]),
            format!("{count} waiting orders are like this"),
        )),
    })
}

/// The number of an order as people write it: `order 5171`, `#5171`.
fn bare_order(text: &str) -> &str {
    let text = text.trim();
    let word = text.get(..5).filter(|word| word.eq_ignore_ascii_case("order"));
    let bare = text[word.map_or(0, str::len)..].trim_start_matches([' ', ':', '#']);
    match bare.is_empty() {
        true => text,
        false => bare,
    }
}

/// The first licenses after a place, one more than a page has. Where a ledger has many, the list may be as old as the counts beside it.
async fn found(asked: &Asked<'_>, filter: &ListFilter, after: Option<ListPlace>) -> Result<LicenseList, PageProblem> {
    let service = Arc::clone(&asked.state.service);
    let snapshot = Arc::clone(asked.snapshot);
    let wanted = filter.clone();
    let kept = &asked.state.lists;
    if !filter.is_of_terms() || service.gate.bindings().issued_count() < MANY {
        let look = move || scan(&service, &snapshot, &wanted, after, PAGE + 1);
        return Ok(asked.state.scans.look(look).await?);
    }
    let list = match kept.within(&filter.terms, COUNTS_FOR, asked.now) {
        Some(list) => list,
        None => {
            let service = Arc::clone(&service);
            let snapshot = Arc::clone(&snapshot);
            let wanted = wanted.clone();
            let look = move || scan(&service, &snapshot, &wanted, None, MOST_KEPT);
            let list = asked.state.scans.look(look).await?;
            kept.keep(filter.terms.clone(), list, asked.now)
        }
    };
    if let Some(part) = list.after(after) {
        return Ok(part);
    }
    let look = move || scan(&service, &snapshot, &wanted, after, PAGE + 1);
    Ok(asked.state.scans.look(look).await?)
}

/// Whether a license is still one that the list has.
fn takes_now(asked: &Asked<'_>, filter: &ListFilter, id: &LicenseId) -> bool {
    let gate = &asked.state.service.gate;
    let bindings = gate.bindings();
    let marks = |license: &License| LicenseMarks::of(license, bindings, &gate.rules().staging, filter.terms.today);
    let found = found_license::find(&asked.snapshot.registry, bindings, id);
    found.is_some_and(|found| filter.takes(&found, || marks(&found)))
}

/// The state of a license, as an address has it.
pub(super) fn state_word(license: &License, today: NaiveDate) -> &'static str {
    let state = license.state(today);
    let mut states = STATES.iter();
    states.find(|(.., of)| *of == state).map_or("", |(word, ..)| word)
}

/// The filter that the fields of a request are.
async fn filter(asked: &Asked<'_>) -> Result<ListFilter, PageProblem> {
    let wanted = match asked.fields.get("q") {
        "" => None,
        text => Some(wanted(asked, text).await?),
    };
    let plugin = asked.snapshot.registry.plugin(asked.fields.get("plugin"));
    let chosen = |name| asked.fields.get(name);
    let running = match plugin.filter(|_| !chosen("runs").is_empty()) {
        Some(plugin) => Some(Arc::new(running(asked, plugin.slug.clone(), chosen("runs")).await?)),
        None => None,
    };
    let terms = TermsFilter {
        today: asked.today(),
        module: plugin.map(|plugin| plugin.module.clone()),
        state: STATES
            .iter()
            .find(|(value, ..)| *value == chosen("state"))
            .map(|(.., state)| *state),
        ends: ENDS
            .iter()
            .find(|(value, ..)| *value == chosen("ends"))
            .map(|(.., ends)| *ends),
        seats: match chosen("seats") {
            "full" => Some(SeatsFilter::Full),
            "none" => Some(SeatsFilter::Unused),
            _ => None,
        },
    };
    Ok(ListFilter { wanted, running, terms })
}

/// The sites that run this version of a plugin.
async fn running(asked: &Asked<'_>, plugin: Slug, version: &str) -> Result<RunningSites, PageProblem> {
    let look = reports::sites_running(&asked.state.service, plugin, version, DAYS);
    let mut running = RunningSites::new();
    for site in asked.state.scans.look_with(look).await?? {
        running.entry(site.license).or_default().push(site.host);
    }
    Ok(running)
}

/// All licenses that match the fields of a request, the newest first. If the fields name a version, also the sites that run it.
pub(super) async fn all_matching(
    asked: &Asked<'_>,
) -> Result<(Vec<LicenseId>, Option<Arc<RunningSites>>), PageProblem> {
    if asked.fields.get("q").len() > MAX_TEXT {
        return Err(PageProblem::refused("What you look for is too long.".to_owned()).back_to("/licenses".to_owned()));
    }
    asked.state.service.catch_up().await;
    let filter = filter(asked).await?;
    let running = filter.running.clone();
    let service = Arc::clone(&asked.state.service);
    let snapshot = Arc::clone(asked.snapshot);
    let look = move || {
        let found = scan(&service, &snapshot, &filter, None, usize::MAX);
        found.places.into_iter().map(|(_, id)| id).collect()
    };
    Ok((asked.state.scans.look(look).await?, running))
}

/// The license that a text names: by its key, or by at least eight digits of its id.
fn named_license(asked: &Asked<'_>, text: &str) -> Option<LicenseId> {
    let bindings = asked.state.service.gate.bindings();
    let registry = &asked.snapshot.registry;
    if let Ok(key) = text.parse::<LicenseKey>() {
        let id = key.id();
        return found_license::find(registry, bindings, &id).map(|_| id);
    }
    let text = text.trim_end_matches('…').to_ascii_lowercase();
    if !(FEWEST_DIGITS..=64).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let bytes: Vec<u8> = text
        .as_bytes()
        .chunks_exact(2)
        .filter_map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let id = found_license::beginning_with(registry, bindings, &bytes)?.id;
    id.to_string().starts_with(&text).then_some(id)
}

/// The licenses of the sites, orders and customers that a text names.
async fn wanted(asked: &Asked<'_>, text: &str) -> Result<HashSet<LicenseId>, PageProblem> {
    let service = &asked.state.service;
    let mut wanted = HashSet::new();
    let bare = Some(bare_order(text)).filter(|bare| *bare != text);
    for number in std::iter::once(text).chain(bare) {
        let order = WantedOrder::new(number, asked.secrets, &service.hooks);
        let service = Arc::clone(service);
        let look = move || order.licenses(service.gate.bindings());
        wanted.extend(asked.state.scans.look(look).await?);
    }
    if let Ok(host) = text.parse::<SiteHost>()
        && host.as_str().contains(['.', ':'])
    {
        let service = Arc::clone(service);
        let snapshot = Arc::clone(asked.snapshot);
        let refused_host = host.clone();
        let look = move || {
            let mut ids = service.gate.bindings().licenses_of_host(&host);
            let listed = snapshot
                .registry
                .licenses()
                .filter(|license| license.details.hosts.contains(&host));
            ids.extend(listed.map(|license| license.id));
            ids
        };
        wanted.extend(asked.state.scans.look(look).await?);
        let look = reports::licenses_refused_to(&asked.state.service, &refused_host);
        wanted.extend(asked.state.scans.look_with(look).await??);
    }
    let wanted_text = folded(text);
    let found = customers_with(asked, &wanted_text).await?;
    // SECURITY: who does not see addresses does not find out by them, either.
    let sees = asked.visitor.sees_customers();
    let rows = found.into_iter().filter(|row| {
        let has_name = || {
            row.name
                .as_ref()
                .is_some_and(|name| contains_folded(name, &wanted_text))
        };
        sees || has_name()
    });
    let mut customers: BTreeSet<Hex128> = rows.map(|row| row.number).collect();
    // Where only an HMAC of the address is kept, the whole address finds.
    if let Ok(address) = text.parse::<CustomerAddress>()
        && sees
    {
        customers.extend(asked.customers_of(&address).await?);
    }
    wanted.extend(asked.issued_to(customers.into_iter().collect()).await?);
    Ok(wanted)
}

/// The customers whose address or name contains `wanted`, a folded text.
async fn customers_with(asked: &Asked<'_>, wanted: &str) -> Result<Vec<CustomerRow>, PageProblem> {
    let bindings = asked.state.service.gate.bindings();
    let search = bindings.customer_search().await?;
    let wanted = wanted.to_owned();
    let look = move || {
        let mut slice = TimeSlice::begin();
        search.first(&wanted, MOST_CUSTOMERS, &mut || slice.pause())
    };
    let names = asked.state.scans.look(look).await??;
    let stored = bindings.texts(names).await?;
    Ok(stored
        .iter()
        .filter_map(|(_, stored)| stored.customer().cloned())
        .collect())
}

/// The first licenses after a place, so many at most, and how many there are. Looks at every license where no text names some and anything
/// is filtered. Blocks.
fn scan(
    service: &Service,
    snapshot: &Snapshot,
    filter: &ListFilter,
    after: Option<ListPlace>,
    most: usize,
) -> LicenseList {
    let bindings = service.gate.bindings();
    if filter.takes_all() {
        return newest(bindings, snapshot, after, most);
    }
    let staging = &service.gate.rules().staging;
    let mut matching = 0;
    let mut newest: BinaryHeap<Reverse<ListPlace>> = BinaryHeap::new();
    let mut slice = TimeSlice::begin();
    let mut look = |license: &License, issued: i64| {
        slice.pause_after_small_step();
        let marks = || LicenseMarks::of(license, bindings, staging, filter.terms.today);
        if !filter.takes(license, marks) {
            return;
        }
        matching += 1;
        let place = (issued, license.id);
        if after.is_none_or(|after| place < after) {
            newest.push(Reverse(place));
            if newest.len() > most {
                newest.pop();
            }
        }
    };
    match &filter.wanted {
        Some(wanted) => {
            for found in wanted
                .iter()
                .filter_map(|id| found_license::find(&snapshot.registry, bindings, id))
            {
                let issued = match &found {
                    FoundLicense::Ledger(issued) => issued.place().0,
                    FoundLicense::Declared(_) => DECLARED,
                };
                look(&found, issued);
            }
        }
        None => {
            bindings.each_issued(|issued| look(&issued.license, issued.place().0));
            found_license::declared_alone(&snapshot.registry, bindings).for_each(|license| look(license, DECLARED));
        }
    }
    // The smallest of the reversed is the newest.
    let places = newest
        .into_sorted_vec()
        .into_iter()
        .map(|Reverse(place)| place)
        .collect();
    LicenseList { places, matching }
}

/// The newest licenses after a place, and the count of all. Reads no other license of the ledger.
fn newest(bindings: &Ledger, snapshot: &Snapshot, after: Option<ListPlace>, most: usize) -> LicenseList {
    let declared = found_license::declared_alone(&snapshot.registry, bindings);
    let mut declared: Vec<ListPlace> = declared.map(|license| (DECLARED, license.id)).collect();
    let matching = bindings.issued_count() + declared.len();
    let mut places = bindings.newest_issued(after, most);
    declared.retain(|place| after.is_none_or(|after| *place < after));
    declared.sort_unstable_by_key(|place| Reverse(*place));
    places.extend(declared);
    places.truncate(most);
    LicenseList { places, matching }
}

impl ListFilter {
    /// Whether the list has every license.
    fn takes_all(&self) -> bool {
        let any = TermsFilter {
            today: self.terms.today,
            ..TermsFilter::default()
        };
        self.wanted.is_none() && self.running.is_none() && self.terms == any
    }

    /// Whether each license says itself whether the list has it, and the list has not all.
    fn is_of_terms(&self) -> bool {
        self.wanted.is_none() && self.running.is_none() && !self.takes_all()
    }

    /// Whether the list has this license. Its sites are looked at last, because that takes longest.
    fn takes(&self, license: &License, marks: impl FnOnce() -> LicenseMarks) -> bool {
        let is_wanted = |wanted: &HashSet<LicenseId>| wanted.contains(&license.id);
        self.wanted.as_ref().is_none_or(is_wanted)
            && self
                .running
                .as_ref()
                .is_none_or(|running| running.contains_key(&license.id))
            && self.terms.takes(license, marks)
    }
}

/// A place as an address has it: `time.id`.
fn place(text: &str) -> Option<ListPlace> {
    let (time, id) = text.split_once('.')?;
    Some((time.parse().ok()?, id.parse().ok()?))
}

/// The filters of a request, for another address.
fn filters(asked: &Asked<'_>) -> url::form_urlencoded::Serializer<'static, String> {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for name in ["q", "plugin", "runs", "state", "ends", "seats"] {
        let value = asked.fields.get(name);
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    query
}

/// The address of what follows a place, with the same filters.
fn older(asked: &Asked<'_>, (time, id): &ListPlace) -> String {
    let mut query = filters(asked);
    query.append_pair("after", &format!("{time}.{id}"));
    format!("/licenses?{}", query.finish())
}

fn choices(any: &str, all: &[(&str, &str)], chosen: &str) -> Vec<FilterChoice> {
    let choice = |(value, word): (&str, &str)| FilterChoice {
        value: value.to_owned(),
        word: OutsideText::of(word),
        is_chosen: value == chosen,
    };
    std::iter::once(("", any))
        .chain(all.iter().copied())
        .map(choice)
        .collect()
}

fn plugin_choices(asked: &Asked<'_>) -> Vec<FilterChoice> {
    let plugins = asked.snapshot.registry.plugins();
    let mut named: Vec<_> = plugins
        .map(|plugin| {
            let name = plugin.shown_name(asked.snapshot.catalog.plugin_name(&plugin.slug));
            (plugin.slug.as_str(), name)
        })
        .collect();
    named.sort_by_key(|(slug, name)| (*name, *slug));
    choices("Any", &named, asked.fields.get("plugin"))
}

fn tabs(asked: &Asked<'_>, figures: &LicenseFigures) -> Vec<QuickFilter> {
    let all = [
        ("/licenses", "All", figures.all, ("", "")),
        (
            "/licenses?state=active&ends=30",
            "Ending in 30 days",
            figures.ending,
            ("30", ""),
        ),
        ("/licenses?seats=full", "All seats used", figures.full, ("", "full")),
        ("/licenses?seats=none", "Never used", figures.unused, ("", "none")),
    ];
    let is_here = |(ends, seats): (&str, &str)| {
        let get = |name| asked.fields.get(name);
        let is_plain = get("q").is_empty() && get("plugin").is_empty();
        let is_active = get("state") == if ends.is_empty() { "" } else { "active" };
        is_plain && is_active && get("ends") == ends && get("seats") == seats
    };
    let tab = |(path, word, count, of): (&'static str, &'static str, usize, (&str, &str))| QuickFilter {
        path,
        word,
        count: grouped(count),
        is_here: is_here(of),
    };
    all.map(tab).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_and_read() {
        let id = LicenseId::from_bytes([7; 32]);
        for time in [0, 1_800_000_000_000_000_000, DECLARED] {
            assert_eq!(place(&format!("{time}.{id}")), Some((time, id)));
        }
        for text in ["", ".", "1", "1.2", "x.y", &format!("1.{id}0")] {
            assert_eq!(place(text), None, "{text}");
        }
    }
}
