//! Tokens and money.
use serde::{Deserialize, Serialize};

/// Tokens of one request, or of many added up, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// All input, cached or not.
    #[serde(default)]
    pub input: u64,
    /// All output, thinking included.
    #[serde(default)]
    pub output: u64,
    /// Input that the provider had kept.
    #[serde(default)]
    pub cached: u64,
    /// Input that the provider keeps from now on, where it says so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written: u64,
    #[serde(default)]
    pub reasoning: u64,
    /// By the prices of the time.
    #[serde(default, skip_serializing_if = "Cost::is_none")]
    pub cost: Cost,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, o: Usage) {
        self.input += o.input;
        self.output += o.output;
        self.cached += o.cached;
        self.written += o.written;
        self.reasoning += o.reasoning;
        self.cost.nanos += o.cost.nanos;
        self.cost.priced += o.cost.priced;
        self.cost.unpriced += o.cost.unpriced;
    }
}

/// What requests cost, as far as their prices were known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Billionths of a US dollar, of the requests with a price.
    pub nanos: u64,
    /// How many requests had a price, and how many had none.
    pub priced: u32,
    pub unpriced: u32,
}

impl Cost {
    /// Nothing was asked.
    pub fn is_none(&self) -> bool {
        self.priced == 0 && self.unpriced == 0
    }
    /// The amount is all of it.
    pub fn is_whole(&self) -> bool {
        self.priced > 0 && self.unpriced == 0
    }
    /// US dollars of what had a price; `None`: nothing had one.
    pub fn dollars(&self) -> Option<f64> {
        (self.priced > 0).then(|| self.nanos as f64 / 1e9)
    }
}
