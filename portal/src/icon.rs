//! The picture of the pages in a browser's tab: on the page of a job with a mark that says how it stands, by its shape as well as by its colour.

/// The picture.
pub const ICON: &str = include_str!("../assets/icon.svg");

/// The families of states, the colour of each, and its shape in 16 times 16.
const MARKS: [(&str, &str, &str); 5] = [
    ("neutral", "#515861", "M8 0a8 8 0 1 0 0 16A8 8 0 0 0 8 0zm0 4.5a3.5 3.5 0 1 1 0 7a3.5 3.5 0 0 1 0-7z"),
    ("active", "#0a3f94", "M3 1l12 7-12 7z"),
    ("good", "#16706a", "M8 0a8 8 0 1 0 0 16A8 8 0 0 0 8 0zM6.8 12L3 8.2l1.6-1.6 2.2 2.2 4.6-4.8 1.6 1.6z"),
    ("warn", "#8c6000", "M8 0l8 16H0zm-1 5v6h2V5zm0 7.5v2h2v-2z"),
    ("bad", "#8a1509", "M1 1h14v14H1zM5 3.5L3.5 5l3 3-3 3L5 12.5l3-3 3 3 1.5-1.5-3-3 3-3L11 3.5l-3 3z"),
];

/// The picture with the mark of each family.
pub fn icons() -> [(&'static str, String); 5] {
    MARKS.map(|(family, colour, shape)| {
        let mark = format!(
            "<circle cx=\"10.5\" cy=\"10.5\" r=\"5.5\" fill=\"#fff\"/><path transform=\"translate(6.5 6.5) scale(.5)\" fill=\"{colour}\" \
             fill-rule=\"evenodd\" d=\"{shape}\"/></svg>"
        );
        (family, ICON.trim_end().replace("</svg>", &mark))
    })
}
