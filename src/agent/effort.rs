//! How hard a model is told to think.
use crate::model::ModelInfo;

/// Least first, over all providers.
const ORDER: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The effort that a model takes for one that was chosen, perhaps for another model: the same, else the nearest below,
/// else the nearest above. `None`: the model's own default.
pub fn fitting(chosen: Option<&str>, info: &ModelInfo) -> Option<String> {
    let chosen = chosen?;
    if info.efforts.iter().any(|e| e == chosen) {
        return Some(chosen.to_owned());
    }
    let place = |effort: &str| ORDER.iter().position(|o| *o == effort);
    let at = place(chosen)?;
    let known = || info.efforts.iter().filter_map(|e| Some((place(e)?, e)));
    let below = known().filter(|(p, _)| *p < at).max();
    below.or_else(|| known().min()).map(|(_, e)| e.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_becomes_the_nearest_that_there_is() {
        let info = |efforts: &[&str]| ModelInfo {
            efforts: efforts.iter().map(|e| (*e).to_owned()).collect(),
            ..ModelInfo::default()
        };
        for (chosen, efforts, want) in [
            (Some("high"), &["low", "medium", "high"][..], Some("high")),
            (Some("xhigh"), &["low", "medium", "high"], Some("high")),
            (Some("none"), &["minimal", "low"], Some("minimal")),
            (Some("low"), &["high", "max"], Some("high")),
            (Some("odd"), &["odd", "low"], Some("odd")),
            (Some("odd"), &["low"], None),
            (Some("high"), &[], None),
            (None, &["low"], None),
        ] {
            assert_eq!(fitting(chosen, &info(efforts)).as_deref(), want, "{chosen:?} of {efforts:?}");
        }
    }
}
