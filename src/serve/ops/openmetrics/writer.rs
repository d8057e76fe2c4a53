//! Writes metrics and their series with the encoder of `prometheus-client`.

use std::fmt;

use enum_map::EnumArray;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

use crate::serve::metrics::{Counter, Counters};
use countersign_files::histogram::Durations;

/// Writes metrics one after the other.
pub(super) struct MetricWriter<'a>(pub DescriptorEncoder<'a>);

impl MetricWriter<'_> {
    pub(super) fn add(&mut self, name: &str, help: &str, metric: &impl EncodeMetric) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, metric.metric_type())?;
        metric.encode(encoder)
    }
}

/// The series of one metric by their labels, in output order.
#[derive(Debug)]
pub(super) struct Series<'l, const N: usize, M>(pub Vec<([(&'static str, &'l str); N], M)>);

impl<'l, const N: usize, M> FromIterator<([(&'static str, &'l str); N], M)> for Series<'l, N, M> {
    fn from_iter<I: IntoIterator<Item = ([(&'static str, &'l str); N], M)>>(series: I) -> Self {
        Self(series.into_iter().collect())
    }
}

impl<const N: usize, M: EncodeMetric + TypedMetric> EncodeMetric for Series<'_, N, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}

/// A series for each value of a label.
pub(super) fn by<L: EnumArray<Counter> + Into<&'static str>>(
    name: &'static str,
    counters: &Counters<L>,
) -> Series<'static, 1, Counter> {
    let series = |(label, count): (L, &Counter)| ([(name, label.into())], count.clone());
    counters.iter().map(series).collect()
}

/// A histogram as the encoder takes it.
#[derive(Debug)]
pub(super) struct DurationMetric(pub Durations);

impl TypedMetric for DurationMetric {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for DurationMetric {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_histogram::<NoLabelSet>(self.0.sum, self.0.count(), &self.0.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
