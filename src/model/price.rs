//! What requests cost.
use crate::log::{Cost, Usage};
use serde::{Deserialize, Serialize};

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    /// Input that the provider had kept; where that has no price of its own, it is input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    /// Input that it keeps from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<f64>,
    /// Replies, thinking included.
    pub output: f64,
    /// Other prices for long requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<Above>,
}

/// The prices of a request with more input than this.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Above {
    pub tokens: u64,
    pub input: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<f64>,
    pub output: f64,
}

impl Price {
    /// The cost of one request.
    pub fn of(&self, usage: &Usage) -> Cost {
        let (input, cached, written, output) = match &self.above {
            Some(a) if usage.input > a.tokens => (a.input, a.cached, a.written, a.output),
            _ => (self.input, self.cached, self.written, self.output),
        };
        let fresh = usage.input.saturating_sub(usage.cached).saturating_sub(usage.written);
        let dollars_per_million = fresh as f64 * input
            + usage.cached as f64 * cached.unwrap_or(input)
            + usage.written as f64 * written.unwrap_or(input)
            + usage.output as f64 * output;
        // A millionth of a dollar is a thousand billionths.
        Cost { nanos: (dollars_per_million * 1_000.0).round() as u64, priced: 1, unpriced: 0 }
    }
}

/// The usage of one request with what it cost. Without a price the cost is not known, which is not nothing.
pub fn priced(usage: Usage, price: Option<&Price>) -> Usage {
    let cost = price.map_or(Cost { nanos: 0, priced: 0, unpriced: 1 }, |price| price.of(&usage));
    Usage { cost, ..usage }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_paid_by_what_was_cached_and_how_long_it_was() {
        let price = Price {
            input: 3.0,
            cached: Some(0.3),
            written: Some(3.75),
            output: 15.0,
            above: Some(Above { tokens: 200_000, input: 6.0, cached: None, written: None, output: 22.5 }),
        };
        let usage =
            Usage { input: 100_000, output: 1_000, cached: 80_000, written: 10_000, ..Usage::default() };
        // 10,000 × 3 + 80,000 × 0.3 + 10,000 × 3.75 + 1,000 × 15 dollars for a million.
        assert_eq!(price.of(&usage).dollars(), Some(0.1065));
        let long = Usage { input: 300_000, output: 1_000, cached: 100_000, ..Usage::default() };
        assert_eq!(price.of(&long).dollars(), Some(1.8225));
    }

    #[test]
    fn what_has_no_price_is_not_free() {
        let usage = Usage { input: 10, output: 1, ..Usage::default() };
        let mut all = priced(usage, None);
        assert_eq!((all.cost.dollars(), all.cost.is_whole()), (None, false));
        let free = Price { input: 0.0, cached: None, written: None, output: 0.0, above: None };
        all += priced(usage, Some(&free));
        assert_eq!((all.cost.dollars(), all.cost.is_whole()), (Some(0.0), false));
        assert_eq!(priced(usage, Some(&free)).cost.dollars(), Some(0.0));
        assert!(Usage::default().cost.is_none());
    }
}
