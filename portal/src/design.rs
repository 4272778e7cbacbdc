//! Whether the stylesheet keeps what it promises: contrast of text and of pictures, also for eyes that see fewer colours.
//!
//! Contrast is that of WCAG 2.2. Other eyes are those of Machado, Oliveira and Fernandes (2009) at severity 1; distances
//! are in `OKLab`, times a hundred.

use std::collections::BTreeMap;

use crate::CSS;

type Tokens = BTreeMap<String, [f64; 3]>;

/// The tokens of the light theme, and of the dark one.
fn themes() -> [Tokens; 2] {
    let declarations = CSS.split(['{', ';', '}', '\n']).filter_map(|one| one.trim().strip_prefix("--"));
    let pairs = declarations.filter_map(|one| {
        let (name, value) = one.split_once(':')?;
        let (light, dark) = value.strip_prefix("light-dark(")?.strip_suffix(')')?.split_once(',')?;
        Some((name.to_owned(), [light, dark].map(colour)))
    });
    let pairs: Vec<_> = pairs.collect();
    [0, 1].map(|theme| pairs.iter().map(|(name, colours)| (name.clone(), colours[theme])).collect())
}

fn colour(text: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap()) / 255.0)
}

fn linear(colour: [f64; 3]) -> [f64; 3] {
    colour.map(|part| if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) })
}

fn luminance(colour: [f64; 3]) -> f64 {
    let [red, green, blue] = linear(colour);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    (one / other).max(other / one)
}

fn mixed(one: [f64; 3], part: f64, other: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|at| one[at] * part + other[at] * (1.0 - part))
}

fn times(matrix: [[f64; 3]; 3], of: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(of).map(|(one, other)| one * other).sum())
}

const EYES: [(&str, [[f64; 3]; 3]); 4] = [
    ("all", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protan",
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
    ),
    (
        "deutan",
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ),
    (
        "tritan",
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ),
];

fn oklab(linear: [f64; 3]) -> [f64; 3] {
    let cones = times(
        [
            [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
            [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
            [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
        ],
        linear.map(|part| part.clamp(0.0, 1.0)),
    );
    times(
        [
            [0.210_454_255_3, 0.793_617_785, -0.004_072_046_8],
            [1.977_998_495_1, -2.428_592_205, 0.450_593_709_9],
            [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766],
        ],
        cones.map(f64::cbrt),
    )
}

fn distance(eyes: [[f64; 3]; 3], one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (oklab(times(eyes, linear(one))), oklab(times(eyes, linear(other))));
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt() * 100.0
}

#[test]
fn text_can_be_read() {
    for of in themes() {
        let (bg, surface) = (of["bg"], of["surface"]);
        for name in ["text", "muted", "link", "neutral", "active", "good", "warn", "bad"] {
            let least = contrast(of[name], bg).min(contrast(of[name], surface));
            assert!(least >= 4.5, "{name}: {least:.2}");
        }
        // The word of a chip on its tint.
        for name in ["neutral", "active", "good", "warn", "bad"] {
            let found = contrast(of[name], mixed(of[name], 0.12, bg));
            assert!(found >= 4.5, "chip {name}: {found:.2}");
        }
        for name in ["border", "focus"] {
            let least = contrast(of[name], bg).min(contrast(of[name], surface));
            assert!(least >= 3.0, "{name}: {least:.2}");
        }
        // Numbers in bars.
        for name in ["fill-active", "fill-good", "fill-bad"] {
            let found = contrast(of["in"], of[name]);
            assert!(found >= 3.0, "in {name}: {found:.2}");
        }
    }
}

#[test]
fn fills_are_seen_and_told_apart_by_all_eyes() {
    let fills = ["fill-waiting", "fill-active", "fill-good", "fill-warn", "fill-bad"];
    for of in themes() {
        // What waits has a border.
        for name in &fills[1..] {
            let found = contrast(of[*name], of["bg"]);
            assert!(found >= 3.0, "{name}: {found:.2}");
        }
        for (eyes, matrix) in EYES {
            for (at, one) in fills.iter().enumerate() {
                for other in &fills[..at] {
                    let found = distance(matrix, of[*one], of[*other]);
                    assert!(found >= 14.0, "{one} and {other} for {eyes}: {found:.1}");
                }
            }
            // Bands that lie on one another.
            let bands = ["busy-4", "busy-2", "fill-good", "fill-warn", "fill-waiting", "surface"];
            for pair in bands.windows(2) {
                let found = distance(matrix, of[pair[0]], of[pair[1]]);
                assert!(found >= 9.0, "{} and {} for {eyes}: {found:.1}", pair[0], pair[1]);
            }
        }
    }
}

#[test]
fn the_busy_ramp_has_even_steps() {
    for of in themes() {
        let ramp: Vec<[f64; 3]> = (0..5).map(|level| of[&format!("busy-{level}")]).collect();
        for (level, pair) in ramp.windows(2).enumerate() {
            let step = contrast(pair[0], pair[1]);
            assert!((1.25..2.0).contains(&step), "step {level}: {step:.2}");
        }
    }
}

#[test]
fn the_stylesheet_is_small_and_whole() {
    assert!(CSS.len() <= 14 << 10, "{}", CSS.len());
    let [light, dark] = themes();
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>());
    // Nothing is fetched, and nothing can end the element that it stands in.
    for word in ["@import", "http", "</", "url(\""] {
        assert!(!CSS.contains(word), "{word}");
    }
    assert_eq!(CSS.matches("url(").count(), CSS.matches("url(#hatch)").count());
    for name in ["forced-colors:active", "prefers-reduced-motion", "print"] {
        assert!(CSS.contains(name), "{name}");
    }
    // Every variable that is used is there.
    for used in CSS.split("var(--").skip(1).map(|rest| &rest[..rest.find([')', ',']).unwrap()]) {
        assert!(light.contains_key(used) || CSS.contains(&format!("{{--{used}:")), "{used}");
    }
}
