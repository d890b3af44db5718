//! Scales of axes: they map values to positions, and have ticks at round numbers.

/// The scale of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisScale {
    low: f64,
    high: f64,
    logarithmic: bool,
    pub ticks: Vec<Tick>,
    /// The values of shorter ticks, which have no labels.
    pub minor: Vec<f64>,
}

/// A tick with its label.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

/// A value that a range must include, and the limits that it must not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub include: Option<f64>,
    pub at_least: f64,
    pub at_most: f64,
}

impl Bounds {
    /// No limits.
    pub const NONE: Self = Self { include: None, at_least: f64::NEG_INFINITY, at_most: f64::INFINITY };
    /// The limits of shares, probabilities and F1.
    pub const SHARE: Self = Self { include: None, at_least: 0.0, at_most: 1.0 };
    /// The limits of a share, with zero included.
    pub const SHARE_FROM_ZERO: Self = Self { include: Some(0.0), ..Self::SHARE };
    /// Zero is included, and there is no upper limit.
    pub const FROM_ZERO: Self = Self { include: Some(0.0), at_least: 0.0, at_most: f64::INFINITY };
}

impl AxisScale {
    /// Creates a scale that covers the values from one round number to another, with about that many ticks. Without
    /// values, it goes from 0 to 1.
    pub fn linear(values: impl IntoIterator<Item = f64>, bounds: Bounds, ticks: usize) -> Self {
        let (mut low, mut high) = range(values.into_iter().chain(bounds.include)).unwrap_or((0.0, 1.0));
        if high - low <= f64::EPSILON * low.abs().max(high.abs()) {
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = (low - room, high + room);
            if bounds.include.is_some_and(|value| value <= low + room && value >= low) {
                low += room;
            }
        }
        (low, high) = (low.max(bounds.at_least), high.min(bounds.at_most));
        let step = step((high - low) / ticks.max(1) as f64);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let values = (0..=(last - first) as u32).map(|n| (first + f64::from(n)) * step);
        let ticks = values.map(|value| Tick { value, label: label(value, decimals) }).collect();
        Self { low: first * step, high: last * step, logarithmic: false, ticks, minor: Vec::new() }
    }

    /// Creates a scale for whole numbers such as epochs, exactly from the smallest value to the largest.
    pub fn whole(values: impl IntoIterator<Item = f64>, ticks: usize) -> Self {
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        let step = step((high - low) / ticks.max(1) as f64).max(1.0);
        let inner = (0..).map(|n| (low / step).ceil() * step + f64::from(n) * step);
        let ticks = inner.take_while(|value| *value <= high + step * 1e-9);
        let ticks = ticks.map(|value| Tick { value, label: label(value, 0) }).collect();
        let (low, high) = if low == high { (low - 1.0, high + 1.0) } else { (low, high) };
        Self { low, high, logarithmic: false, ticks, minor: Vec::new() }
    }

    /// Creates a logarithmic scale between powers of ten around the positive values.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = range(values.into_iter().filter(|value| *value > 0.0)).unwrap_or((1.0, 10.0));
        let (first, mut last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        if first == last {
            last += 1;
        }
        let ticks = (first..=last).map(|power| Tick { value: 10f64.powi(power), label: power_label(power) });
        let between = |power: i32| (2..10).map(move |n| f64::from(n) * 10f64.powi(power));
        Self {
            low: 10f64.powi(first),
            high: 10f64.powi(last),
            logarithmic: true,
            ticks: ticks.collect(),
            minor: (first..last).flat_map(between).collect(),
        }
    }

    /// Creates a scale that ends exactly at two values, with ticks at round numbers between them.
    pub fn between(low: f64, high: f64, logarithmic: bool, ticks: usize) -> Self {
        if logarithmic {
            let inside = |value: &f64| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9);
            let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let times = |n: f64| powers.clone().map(move |power| n * 10f64.powi(power)).filter(inside);
            let mut values: Vec<f64> = times(1.0).collect();
            if values.len() < 2 {
                values = times(1.0).chain(times(2.0)).chain(times(5.0)).collect();
                values.sort_by(f64::total_cmp);
            }
            let ticks = values.into_iter().map(|value| Tick { value, label: short_label(value) });
            let minor = (2..10).flat_map(|n| times(f64::from(n)).collect::<Vec<_>>()).collect();
            return Self { low, high, logarithmic, ticks: ticks.collect(), minor };
        }
        let step = step((high - low) / ticks.max(1) as f64);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
        let values = (0..=(last - first).max(0.0) as u32).map(|n| (first + f64::from(n)) * step);
        let ticks = values.map(|value| Tick { value, label: label(value, decimals) }).collect();
        Self { low, high, logarithmic, ticks, minor: Vec::new() }
    }

    /// Creates a scale with a tick at each of these values, and some room at both ends.
    pub fn at_values(values: &[f64], logarithmic: bool) -> Self {
        const ROOM: f64 = 0.06;
        let (low, high) = range(values.iter().copied()).unwrap_or((1.0, 1.0));
        let (low, high) = if logarithmic {
            let room = if low == high { 2.0 } else { (high / low).powf(ROOM) };
            (low / room, high * room)
        } else {
            let room = if low == high { 1.0 } else { (high - low) * ROOM };
            (low - room, high + room)
        };
        let ticks = values.iter().map(|&value| Tick { value, label: short_label(value) }).collect();
        Self { low, high, logarithmic, ticks, minor: Vec::new() }
    }

    /// Creates a scale for the rows or columns of cells, one for each name: the first from -0.5 to 0.5, and so on.
    pub fn cells(names: impl IntoIterator<Item = String>) -> Self {
        let names = Self::names(names);
        Self { low: names.low - 0.1, high: names.high + 0.1, ..names }
    }

    /// Creates a scale with a tick for each name: the first at 0, the next at 1, and so on.
    pub fn names(names: impl IntoIterator<Item = String>) -> Self {
        let tick = |(index, label)| Tick { value: index as f64, label };
        let ticks: Vec<Tick> = names.into_iter().enumerate().map(tick).collect();
        let last = ticks.len().max(1) as f64 - 1.0;
        Self { low: -0.4, high: last + 0.4, logarithmic: false, ticks, minor: Vec::new() }
    }

    /// Returns the position of a value between 0 and 1. Values outside of the range are moved to its end.
    pub fn position(&self, value: f64) -> f64 {
        self.unlimited_position(value).clamp(0.0, 1.0)
    }

    /// Returns the position of a value: 0 and 1 at the ends of the range, and beyond them outside of it.
    pub fn unlimited_position(&self, value: f64) -> f64 {
        if self.logarithmic {
            // A value that has no logarithm lies far below.
            let ratio = (value / self.low).max(1e-30);
            ratio.log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns the two ends of the range.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut finite = values.into_iter().filter(|value| value.is_finite());
    let first = finite.next()?;
    Some(finite.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is not below a value.
fn step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough * (1.0 - 1e-9));
    times.unwrap_or(10.0) * power
}

/// Returns the label of a value, with a true minus sign.
fn label(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let negative = value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if negative { format!("−{text}") } else { text }
}

/// Returns the shortest label of a value.
fn short_label(value: f64) -> String {
    let power = value.abs().log10();
    let is_power = value > 0.0 && (power - power.round()).abs() < 1e-9;
    if is_power && !(-3.0..3.5).contains(&power) {
        return power_label(power.round() as i32);
    }
    // Twelve digits hide the error of a product such as 3 times 0.1.
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    let text = if (-5.0..7.0).contains(&power) || value == 0.0 {
        format!("{}", rounded.abs())
    } else {
        format!("{:e}", rounded.abs())
    };
    if value < 0.0 { format!("−{text}") } else { text }
}

fn power_label(power: i32) -> String {
    match power {
        -3..=-1 => format!("{}", 10f64.powi(power)),
        0..=2 => format!("{}", 10u64.pow(power as u32)),
        3..=5 => format!("{}k", 10u64.pow(power as u32 - 3)),
        6..=8 => format!("{}M", 10u64.pow(power as u32 - 6)),
        _ => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(scale: &AxisScale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            labels(&AxisScale::linear([0.12, 0.47], Bounds::SHARE, 4)),
            ["0.1", "0.2", "0.3", "0.4", "0.5"]
        );
        assert_eq!(labels(&AxisScale::linear([-0.3, 0.2], Bounds::NONE, 3)), ["−0.4", "−0.2", "0.0", "0.2"]);
        assert_eq!(
            labels(&AxisScale::linear([0.9991, 1.0], Bounds::SHARE, 2)),
            ["0.9990", "0.9995", "1.0000"]
        );
        assert_eq!(labels(&AxisScale::whole([1.0, 300.0], 5)), ["100", "200", "300"]);
        assert_eq!(labels(&AxisScale::whole([1.0, 4.0], 5)), ["1", "2", "3", "4"]);
        assert_eq!(labels(&AxisScale::logarithmic([0.0, 3.0, 2e4])), ["1", "10", "100", "1k", "10k", "100k"]);
    }

    #[test]
    fn a_scale_can_end_at_given_values_or_have_its_ticks_at_the_data() {
        assert_eq!(labels(&AxisScale::between(0.15, 0.5, false, 4)), ["0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(labels(&AxisScale::between(0.5, 2000.0, true, 4)), ["1", "10", "100", "1000"]);
        assert_eq!(labels(&AxisScale::between(0.15, 0.6, true, 4)), ["0.2", "0.5"]);
        assert_eq!(
            labels(&AxisScale::at_values(&[1.0, 10.0, 50.0, 1e-4, -0.3], false)),
            ["1", "10", "50", "1e-4", "−0.3"]
        );
        let logarithmic = AxisScale::at_values(&[1.0, 10.0, 100.0], true);
        assert!((logarithmic.position(10.0) - 0.5).abs() < 1e-9);
        assert!(logarithmic.position(1.0) > 0.0 && logarithmic.unlimited_position(0.0) < 0.0);
    }

    #[test]
    fn equal_values_and_no_values_have_a_range_too() {
        assert_eq!(labels(&AxisScale::linear([], Bounds::NONE, 2)), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&AxisScale::linear([0.0, 0.0], Bounds::SHARE_FROM_ZERO, 2)), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&AxisScale::linear([1.0], Bounds::SHARE, 2)), ["0.90", "0.95", "1.00"]);
        assert_eq!(labels(&AxisScale::whole([1.0], 5)), ["1"]);
        assert_eq!(labels(&AxisScale::whole([], 5)), ["0", "1"]);
        assert_eq!(labels(&AxisScale::logarithmic([1.0])), ["1", "10"]);
        assert_eq!(labels(&AxisScale::linear([f64::NAN, f64::INFINITY], Bounds::NONE, 1)), ["0", "1"]);
    }

    proptest! {
        #[test]
        fn ticks_cover_the_range_and_have_different_labels(
            values in prop::collection::vec(-1e6..1e6f64, 1..20), ticks in 1..8usize
        ) {
            let scale = AxisScale::linear(values.iter().copied(), Bounds::NONE, ticks);
            let (first, last) = (scale.ticks[0].value, scale.ticks[scale.ticks.len() - 1].value);
            for value in values {
                prop_assert!(first <= value + 1e-6 && value <= last + 1e-6, "{value} in {first}..{last}");
                prop_assert!((0.0..=1.0).contains(&scale.position(value)));
            }
            prop_assert!(scale.ticks.len() <= ticks + 3, "{:?}", scale.ticks);
            let mut labels = labels(&scale);
            let before = labels.len();
            labels.dedup();
            prop_assert_eq!(labels.len(), before);
        }

        #[test]
        fn powers_of_ten_cover_the_range(values in prop::collection::vec(1e-3..1e7f64, 1..20)) {
            let scale = AxisScale::logarithmic(values.iter().copied());
            for value in values {
                prop_assert!(scale.low <= value && value <= scale.high);
            }
        }
    }
}
