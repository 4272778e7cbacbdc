//! Paths and what formats make of them.

use proptest::prelude::*;

use super::*;
use PathValue::{Data, Text, Time};

/// Nanoseconds of a time.
fn at(text: &str) -> PathValue<'static> {
    let time: DateTime = text.parse().unwrap();
    Time(time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_nanos() as i64)
}

/// The columns of the file `relative` below `folder`.
fn read(format: &str, folder: &str, relative: &str) -> Result<Vec<(String, String)>, String> {
    let format: PartitionFormat = format.parse()?;
    let name = format!("{folder}{relative}");
    let columns = format.columns(&name, folder.len()).map_err(|mismatch| mismatch.to_string())?;
    Ok(columns.iter().map(|column| (column.name.to_owned(), shown(column.value))).collect())
}

fn shown(value: PathValue<'_>) -> String {
    match value {
        Text(text) => text.to_owned(),
        Time(nanoseconds) => format!("@{nanoseconds}"),
        Data(_) => panic!("a path has no data"),
    }
}

/// Names and values.
type Columns<'a> = &'a [(&'a str, PathValue<'a>)];

#[test]
fn the_columns_of_a_path() {
    let table: &[(&str, &str, &str, Columns<'_>)] = &[
        // The public examples.
        (
            "/{Department}/{PartitionDate:yyyy/MM/dd}/data.csv",
            "/in/",
            "Accounts/2019/01/02/data.csv",
            &[("Department", Text("Accounts")), ("PartitionDate", at("2019-01-02T00:00"))],
        ),
        (
            "{Store}/{Brand}/{file_name}.{extension}",
            "s3://bucket/oj/",
            "2/dominicks/a.b.csv",
            &[
                ("Store", Text("2")),
                ("Brand", Text("dominicks")),
                ("file_name", Text("a.b")),
                ("extension", Text("csv")),
            ],
        ),
        (
            "{PartitionDate:yyyy/MM/dd/HH}/{fileName}.jsonl",
            "/in/",
            "2023/01/02/03/x.jsonl",
            &[("PartitionDate", at("2023-01-02T03:00")), ("fileName", Text("x"))],
        ),
        (
            "{user}/{season}/{genres}.wav",
            "/in/",
            "u1/winter/ro.ck.wav",
            &[("user", Text("u1")), ("season", Text("winter")), ("genres", Text("ro.ck"))],
        ),
        (
            "/puYear={year}/puMonth={month}",
            "/in/puYear=1/",
            "puYear=2018/puMonth=5/part-0.parquet",
            &[("year", Text("2018")), ("month", Text("5"))],
        ),
        // The end of the path counts, wherever the folder of the input is.
        ("{a}/{b}.csv", "/data/x/", "y.csv", &[("a", Text("x")), ("b", Text("y"))]),
        ("{a}/{b}.csv", "/data/", "1/2/x/y.csv", &[("a", Text("x")), ("b", Text("y"))]),
        ("{a}/{b}", "", "/x/y", &[("a", Text("x")), ("b", Text("y"))]),
        ("{bucket}/{a}", "s3://b/", "x/y", &[("bucket", Text("x")), ("a", Text("y"))]),
        // Whole segments only.
        ("x={a}/y", "/in/", "z/x=1/y", &[("a", Text("1"))]),
        ("y={a}", "/in/", "y=1/xy=2/z", &[("a", Text("1"))]),
        // A format of folders is found from the left, and below the folder alone.
        ("{a}/", "/in/", "x/y/z.csv", &[("a", Text("x"))]),
        ("k={a}", "/k=0/", "x/k=1/k=2/z", &[("a", Text("1"))]),
        // Nothing is decoded.
        ("{a}.txt", "/in/", "%41 ü+é.txt", &[("a", Text("%41 ü+é"))]),
        ("{ä ö}.(x)$", "/in/", "1.(x)$", &[("ä ö", Text("1"))]),
        // `*` is the rest of a segment.
        ("{a}/*.csv", "/in/", "x/part-0.csv", &[("a", Text("x"))]),
        ("{a}-*", "/in/", "x-y-", &[("a", Text("x-y"))]),
        // Fields take what they can, from the left.
        ("{a}{b}", "/in/", "xüz", &[("a", Text("xü")), ("b", Text("z"))]),
        ("./{a}_{b}", "/in/", "x_y_z", &[("a", Text("x_y")), ("b", Text("z"))]),
        // Parts of dates that are not there are the first ones.
        ("{d:yyyy}", "/in/", "2024", &[("d", at("2024-01-01T00:00"))]),
        ("{d:yyyyMM}.csv", "/in/", "202402.csv", &[("d", at("2024-02-01T00:00"))]),
        ("{d:yyyy-MM-dd HH:mm:ss}", "/in/", "2024-02-29 23:59:58", &[("d", at("2024-02-29T23:59:58"))]),
        ("{d:dd.MM.yyyy}", "/in/", "31.12.1969", &[("d", at("1969-12-31T00:00"))]),
        ("{d:yyyy/yyyy-MM yy}", "/in/", "2024/2024-05 24", &[("d", at("2024-05-01T00:00"))]),
        (
            "{d:year=yyyy/mon=MM}/{x}",
            "/in/",
            "year=2024/mon=05/a",
            &[("d", at("2024-05-01T00:00")), ("x", Text("a"))],
        ),
        ("{d:yyyy/MM}", "/in/", "2024/05/x", &[("d", at("2024-05-01T00:00"))]),
        ("{d:yyyyMMdd}", "/in/", "22620411", &[("d", at("2262-04-11T00:00"))]),
    ];
    for (format, folder, relative, expected) in table {
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), shown(*value))).collect();
        assert_eq!(read(format, folder, relative), Ok(expected), "{format} of {folder}{relative}");
    }
}

#[test]
fn a_path_that_is_made_otherwise_has_none() {
    let other = "does not match partition_format";
    let no_date = "for d is no date";
    for (format, relative, says) in [
        ("{a}/{b}.csv", "x/y.CSV", other),
        ("{a}/{b}.csv", "x/.csv", other),
        ("{Store}/{Brand}/{f}.csv", "x.csv", other),
        ("x={a}/y", "zx=1/y", other),
        ("{a}.csv", "csv", other),
        ("{d:yyyy/MM}/x", "2024/5/x", other),
        ("{d:yyyy}", "٢٠٢٤", other),
        ("{d:yyyy/MM}/x", "2024/13/x", no_date),
        ("{d:yyyy-MM-dd}", "2023-02-29", no_date),
        ("{d:yyyy-MM-dd HH}", "2023-02-28 24", no_date),
        ("{d:yyyy ss}", "2023 60", no_date),
        ("{d:yyyy}", "2263", no_date),
        ("{d:yyyy}", "1677", no_date),
        ("{d:yyyy}", "0000", no_date),
        ("{d:yyyy/yyyyMM}", "2024/202301", no_date),
        ("{d:yyyy yy}", "2024 25", no_date),
    ] {
        let said = read(format, "/", relative).unwrap_err();
        assert!(said.contains(says) && said.contains(format), "{format} of {relative}: {said}");
    }
}

#[test]
fn what_is_no_format_is_refused_with_a_remedy() {
    let long = format!("{{a}}{}", "x".repeat(LONGEST));
    for (format, says) in [
        ("", "it has no field"),
        ("/data/*.csv", "it has no field: name a part of the path as {name}"),
        ("{a", "a { has no }"),
        ("a}", "a } has no {"),
        ("{a}}", "a } has no {"),
        ("{}", "{} is no field"),
        ("{ a}", "{ a} is no field"),
        ("{a{b}", "{a{b} is no field"),
        ("{a/b}", "{a/b} is no field"),
        ("{:yyyy}", "{:yyyy} is no field"),
        ("{a}/{a}", "the field {a} is there twice"),
        ("{a}/{a:yyyy}", "the field {a} is there twice"),
        ("{a:}", "has no yyyy"),
        ("{a:MM/dd}", "\"MM/dd\" has no yyyy"),
        ("{a:yy}", "\"yy\" has no yyyy"),
        ("{a:YYYY}", "\"YYYY\" has no yyyy"),
        ("{a}//{b}", "an empty segment"),
        ("{a}/{d:/yyyy}", "an empty segment"),
        (&long, "longer than 4096 bytes"),
    ] {
        let said = format.parse::<PartitionFormat>().unwrap_err();
        assert!(said.contains(says), "{format}: {said}");
    }
}

#[test]
fn a_format_is_stored_as_its_text() {
    let format: PartitionFormat = "./{a}/{d:yyyy}".parse().unwrap();
    let stored = serde_json::to_string(&format).unwrap();
    assert_eq!(stored, "\"./{a}/{d:yyyy}\"");
    assert_eq!(serde_json::from_str::<PartitionFormat>(&stored).unwrap(), format);
    assert!(serde_json::from_str::<PartitionFormat>("\"x\"").is_err());
    assert_eq!(format.names().collect::<Vec<_>>(), ["a", "d"]);
}

#[test]
fn columns_survive_the_wire() {
    let columns = [PathColumn { name: "a", value: Text("ü") }, PathColumn { name: "d", value: Time(-1) }];
    let encoded = PathColumn::encode(&columns);
    assert_eq!(PathColumn::decode(&encoded).unwrap(), columns);
    assert_eq!(PathColumn::encode(&[]), b"");
    assert_eq!(PathColumn::decode(b"").unwrap(), []);
    assert!(PathColumn::decode(b"\x93").is_err());
}

/// What `tokens` make of all of `text`, by trying every length of every field, the longest first.
fn tried<'a>(tokens: &[&str], text: &'a str) -> Option<Vec<&'a str>> {
    let Some((token, rest)) = tokens.split_first() else { return text.is_empty().then(Vec::new) };
    if *token != "F" && *token != "*" {
        return tried(rest, text.strip_prefix(token)?);
    }
    let longest = text.find('/').unwrap_or(text.len());
    for end in (usize::from(*token == "F")..=longest).rev().filter(|end| text.is_char_boundary(*end)) {
        if let Some(mut values) = tried(rest, &text[end..]) {
            if *token == "F" {
                values.insert(0, &text[..end]);
            }
            return Some(values);
        }
    }
    None
}

proptest! {
    /// The format agrees with a search that tries everything, at the end of the path and then from the left.
    #[test]
    fn a_format_finds_what_a_search_does(
        tokens in prop::collection::vec(prop::sample::select(vec!["F", "F", "*", "a", "b", "ü", ".", "-", "/", "/"]), 1..8),
        path in "[abü.-]{1,3}(/[abü.-]{1,3}){0,4}",
    ) {
        let mut fields = 0;
        let format: String = tokens.iter().map(|token| {
            if *token == "F" { fields += 1; format!("{{f{fields}}}") } else { (*token).to_owned() }
        }).collect();
        // A `/` at an end of the format means something of its own.
        prop_assume!(!format.starts_with(['/', '.']) && !format.ends_with('/'));
        let Ok(parsed) = format.parse::<PartitionFormat>() else {
            prop_assert!(fields == 0 || format.contains("//"), "{format}");
            return Ok(());
        };
        let segments: Vec<&str> = path.split('/').collect();
        let count = format.matches('/').count() + 1;
        let mut starts: Vec<usize> = (0..(segments.len()).saturating_sub(count)).collect();
        if segments.len() >= count {
            starts.insert(0, segments.len() - count);
        }
        let places: Vec<String> = starts.iter().map(|start| segments[*start..start + count].join("/")).collect();
        let expected = places.iter().find_map(|place| tried(&tokens, place));
        let name = format!("/{path}");
        let found = parsed.columns(&name, 1).ok().map(|columns| {
            columns.iter().map(|column| match column.value { Text(text) => text, _ => "" }).collect::<Vec<_>>()
        });
        prop_assert_eq!(found, expected, "{} of {}", format, path);
    }

    /// A path that is made of values has these, whatever they are, where no literal stands in one segment with two fields.
    #[test]
    fn values_come_back(values in prop::collection::vec("[^/]{1,5}", 1..5), date in 0_i64..9_000) {
        let format = (0..values.len()).map(|number| format!("x{{f{number}}}/")).collect::<Vec<_>>().concat();
        let format: PartitionFormat = format!("{format}{{d:yyyyMMdd}}.csv").parse().unwrap();
        let day = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).date() + jiff::Span::new().days(date);
        let folders = values.iter().map(|value| format!("x{value}/")).collect::<Vec<_>>().concat();
        let name = format!("s3://bucket/{folders}{}.csv", day.strftime("%Y%m%d"));
        let columns = format.columns(&name, 12).unwrap();
        for (column, value) in columns.iter().zip(&values) {
            prop_assert_eq!(column.value, Text(value));
        }
        prop_assert_eq!(columns[values.len()].value, Time(date * 86_400_000_000_000));
    }

    #[test]
    fn nothing_that_is_given_is_a_panic(format in ".{0,30}", name in ".{0,30}", below in 0_usize..40) {
        if let Ok(format) = format.parse::<PartitionFormat>() {
            let _ = format.columns(&name, below);
        }
    }
}
