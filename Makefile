# One target, one command. What CI runs is what a person runs.

.DEFAULT_GOAL := help
COUNTERSIGN := target/release/countersign
# The same for all that is built for release, so that nothing is built twice.
PACKAGING := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))packaging
RELEASE := $(PACKAGING)/with-release-flags
CARGO_TEST := cargo test

.PHONY: help
help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: rust
rust:
	@$(PACKAGING)/check-rust

.PHONY: run
run: rust ## Build, make the demo instance in demo/ (once), and serve it on 127.0.0.1:8080
	$(RELEASE) cargo build --release
	@if test -e demo; then \
	  echo "demo/ is there, and its keys were shown when it was made. Another key, to try things with:"; \
	  echo "  $(COUNTERSIGN) -C demo license issue --module acme-forms --expires 2099-12-31"; \
	  echo "or start over: rm -r demo"; \
	else \
	  $(COUNTERSIGN) init --demo demo && \
	  echo && echo "make builds the manifests and starts the server now. Paste the commands into another terminal, from cd on."; \
	fi
	$(COUNTERSIGN) -C demo build
	@# Beside the server, which has to run first.
	@{ $(COUNTERSIGN) -C demo wait >/dev/null && echo "The desk, where you see and change all this:" && $(COUNTERSIGN) -C demo desk; } & \
	exec $(COUNTERSIGN) -C demo serve

.PHONY: release
release: rust ## Build the program as it is to be installed: target/release/countersign, checked
	$(RELEASE) cargo build --release
	packaging/check-binary $(COUNTERSIGN)

.PHONY: dist
dist: rust ## Build and pack what is published: tarball, .deb, bill of materials, clients and SHA256SUMS in target/dist
	packaging/dist

.PHONY: test
# Twice as many tests at once as there are cores: most of them wait for servers that they started. What fails stops nothing else,
# so that one run tells all.
test: rust tools ## Run every test, on a fresh machine too
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((2 * $$(nproc)))} $(CARGO_TEST) --no-fail-fast

.PHONY: suite
suite: rust ## Run the integration tests that need Rust, gcc and git alone
	cargo test --test suite

.PHONY: ci
ci: ## What CI runs: lint, deny, and test with a second try for up to five tests that fail; lint holds the oldest Rust, too
	$(MAKE) lint
	$(MAKE) deny
	$(MAKE) test CARGO_TEST='python3 -B tests/tools/second_try.py'

.PHONY: soak
soak: rust tools ## Run the long tests of faults: kill -9, loss of power, rushes, reloads, failovers of nodes; three hours
	timeout 5h $(RELEASE) cargo test --release --test suite --test external soak:: -- --ignored --nocapture --test-threads=1

.PHONY: lived-with
lived-with: rust tools ## Install, upgrade and remove the .deb in a Debian with systemd, and make the images twice; as root, ten minutes
	tests/tools/install containers
	cargo test --test external lived_with:: -- --ignored --nocapture --test-threads=1

.PHONY: broken-rules
broken-rules: rust ## Break each rule of what sales grant, and show that the scenarios notice; ten minutes
	python3 -B tests/tools/break_rules.py

.PHONY: fuzz
FUZZ_SECONDS ?= 60
fuzz: ## Fuzz every parser for FUZZ_SECONDS each (needs cargo-fuzz); what is found is kept in fuzz/artifacts
	cd fuzz && for target in $$(cargo fuzz list); do \
	  mkdir -p ../target/fuzz-corpus/$$target corpus/$$target && \
	  RUSTC_BOOTSTRAP=1 ASAN_OPTIONS=detect_odr_violation=0 cargo fuzz run $$target \
	    ../target/fuzz-corpus/$$target corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 || exit 1; \
	done

.PHONY: tools
tools: ## Install what the tests need beyond Rust, gcc, git and Python 3
	tests/tools/install

.PHONY: lint
lint: rust ## Check format, lints, documentation, and that the fuzz targets still compile
	cargo fmt --all --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items
	@# Of the versions that the program has.
	cp Cargo.lock fuzz/
	cargo check --manifest-path fuzz/Cargo.toml --target-dir $${CARGO_TARGET_DIR:-target}

.PHONY: deny
deny: ## Check the dependencies' licenses, sources, bans and, with cargo-deny and its database, advisories
	.ci/deny

.PHONY: bench
bench: bench-sales bench-build bench-preview bench-serve ## Measure sales, build, preview and server; the first run makes 1.2 GB in target/bench

.PHONY: bench-quick
bench-quick: rust ## Measure what a change is most likely to slow down: sales, updates and validations
	benches/tools/install
	$(RELEASE) cargo bench -p countersign-model --bench sales
	$(RELEASE) cargo bench --bench serve -- updates validate

.PHONY: bench-sales
bench-sales: rust ## Measure the function that says what a sale grants
	$(RELEASE) cargo bench -p countersign-model --bench sales

.PHONY: bench-build
bench-build: rust ## Measure the build beside git alone
	$(RELEASE) cargo bench --bench build

.PHONY: bench-preview
bench-preview: rust tools ## Measure how soon the preview shows its first page, and a change
	$(RELEASE) cargo bench --bench preview

.PHONY: bench-serve
bench-serve: rust ## Measure the server beside a bare route and signing alone (FIGURES=updates picks some)
	benches/tools/install
	$(RELEASE) cargo bench --bench serve -- $(FIGURES)

.PHONY: docs
docs: ## Build the site of the documentation, target/docs/index.html, with what it needs
	tests/tools/install docs
	packaging/docs

.PHONY: pictures
pictures: tools ## Draw the pictures in docs/preview, docs/desk and docs/account again
	cargo test --test external browser::pictures -- --ignored

.PHONY: clean
clean: ## Remove what was built and the demo instance
	cargo clean
	rm -rf demo
