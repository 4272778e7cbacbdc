//! What a configuration says, who counts before whom, and what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

const FILE: &str = "\
default_profile: staging
profiles:
  staging:
    broker: amqp://prs:${BROKER_PASSWORD}@mq.example.org/prs
    redis: redis://redis.example.org/0
    redis_password_file: redis.password
    storage: s3://jobs/staging
    s3:
      endpoint: https://minio.example.org:9000
      region: eu-central-1
      aws_profile: prs
  shared:
    broker: amqp://mq
    redis: redis://redis
    storage: file:///shared
";

/// A folder with this configuration file, and the one option that names it.
fn written(text: &str) -> (tempfile::TempDir, Options) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(folder.path().join("redis.password"), "r/w\nmore\n").unwrap();
    (folder, Options { config: Some(path), ..Options::default() })
}

fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
}

fn urls(choice: &Choice) -> [String; 3] {
    [&choice.broker, &choice.redis, &choice.storage].map(|server| {
        server.as_ref().map(|server| format!("{} {}", server.source, server.url)).unwrap_or_default()
    })
}

fn refusal(text: &str) -> String {
    let (folder, options) = written(text);
    let error = choose(&options, &variables(&[])).unwrap_err().to_string();
    error.replace(&folder.path().display().to_string(), "FOLDER")
}

#[test]
fn a_profile_is_completed_from_variables_and_files() {
    let (_folder, options) = written(FILE);
    let choice = choose(&options, &variables(&[("BROKER_PASSWORD", "p@w")])).unwrap();
    let expected = [
        "profile staging amqp://prs:p%40w@mq.example.org/prs",
        "profile staging redis://:r%2Fw@redis.example.org/0",
        "profile staging s3://jobs/staging",
    ];
    assert_eq!(urls(&choice), expected);
    assert_eq!(choice.s3.aws_profile.as_deref(), Some("prs"));
    assert_eq!(choice.notes, [""; 0]);
    let in_use = choice.profile.unwrap();
    assert!(in_use.named_by.ends_with("config.yaml:1"), "{in_use:?}");
    assert!(!format!("{:?}", choice.files).contains("mq.example"), "URLs are not to be shown");
}

#[test]
fn an_option_counts_before_a_variable_and_that_before_a_profile_that_no_option_names() {
    let (_folder, mut options) = written(FILE);
    options.broker = Some("amqp://option".into());
    let set = [
        ("PRS_BROKER_URL", "amqp://variable"),
        ("PRS_REDIS_URL", "redis://variable"),
        ("PRS_STORAGE_URL", ""),
        ("PRS_PROFILE", "shared"),
    ];
    let choice = choose(&options, &variables(&set)).unwrap();
    let expected =
        ["--broker amqp://option", "PRS_REDIS_URL redis://variable", "profile shared file:///shared"];
    assert_eq!(urls(&choice), expected);

    options.profile = Some("staging".into());
    let set = [("BROKER_PASSWORD", "x"), ("PRS_REDIS_URL", "redis://variable")];
    let [broker, redis, _] = urls(&choose(&options, &variables(&set)).unwrap());
    assert_eq!(broker, "--broker amqp://option");
    assert!(redis.starts_with("profile staging "), "{redis}");

    options.profile = None;
    let named = |set: &[(&str, &str)]| choose(&options, &variables(set)).unwrap().profile.unwrap();
    let by_variable = named(&[("PRS_PROFILE", "shared"), ("BROKER_PASSWORD", "x")]);
    assert_eq!((&*by_variable.name, &*by_variable.named_by), ("shared", "PRS_PROFILE"));
    assert_eq!(named(&[("BROKER_PASSWORD", "x")]).name, "staging");
}

#[test]
fn how_a_bucket_is_reached_goes_with_its_storage() {
    let (_folder, options) = written(FILE);
    let set = [("BROKER_PASSWORD", "x"), ("PRS_STORAGE_URL", "s3://elsewhere")];
    assert_eq!(choose(&options, &variables(&set)).unwrap().s3, crate::storage::S3Options::default());
    // Inputs of a job on this machine are in buckets too.
    let (_folder, options) = written("default_profile: a\nprofiles: {a: {s3: {region: r}}}\n");
    assert_eq!(choose(&options, &variables(&[])).unwrap().s3.region.as_deref(), Some("r"));
}

#[test]
fn what_is_wrong_in_a_file_is_told_at_once_with_its_line() {
    let told = refusal(
        "default_profil: a\nprofiles:\n  a:\n    brokr: amqp://h\n    redis: http://h\n    storage: s3://b\n    s3: \
         {endpoint: h, virtual_host: maybe}\n  -b: {}\n  c: 1\n  d:\n    broker: amqp://u:${1}@h\n  e:\n    broker: \
         amqp://u:p@h\n    broker_password_file: x\n",
    );
    let expected = "\
FOLDER/config.yaml:1: default_profil: there is no such key: did you mean `default_profile`?
FOLDER/config.yaml:4: profiles.a.brokr: there is no such key: did you mean `broker`?
FOLDER/config.yaml:5: profiles.a.redis: the URL has to begin with redis:// or rediss:// or unix://
FOLDER/config.yaml:7: profiles.a.s3.endpoint: the URL has to begin with http:// or https://, and has no credentials
FOLDER/config.yaml:7: profiles.a.s3.virtual_host: \"maybe\" is not one of true, false
FOLDER/config.yaml:8: profiles.-b: \"-b\" is not the name of a profile: give letters, digits, `-`, `_` and `.` that begin with a letter or digit
FOLDER/config.yaml:9: profiles.c: a single value where a profile is expected: give broker, redis and storage
FOLDER/config.yaml:11: profiles.d.broker: ${1} names no variable: write ${NAME}
FOLDER/config.yaml:14: profiles.e.broker_password_file: the URL has a password too: keep one";
    assert_eq!(told, expected);
}

#[test]
fn a_name_that_stands_for_nothing_is_refused_with_its_key() {
    for (text, says) in [
        ("datastores: {d: ftp://x}\n", "datastores.d"),
        ("datastores: {d: {anonymous: true}}\n", "datastores.d.url: the key is missing"),
        ("datastores: {d: {url: data, anonymous: true}}\n", "only a bucket has it: remove it"),
        ("datastores: {d: {url: 's3://bucket', anonymous: true, aws_profile: p}}\n", "keep one of them"),
        (
            "datastores: {a: {url: 's3://bucket/1', region: x}, b: 's3://bucket/2'}\n",
            "another datastore has the same bucket and reaches it otherwise",
        ),
        ("datastores: {d: 's3://key:secret@bucket'}\n", "no credentials"),
        ("compute: {c: 'a b'}\n", "is not the name of a fleet"),
        ("references: {'a*b': c}\n", "`*` stands at the end"),
        ("reference: {a: b}\n", "reference: there is no such key: did you mean `references`?"),
    ] {
        let told = refusal(text);
        assert!(told.starts_with("FOLDER/config.yaml:1: ") && told.contains(says), "{text}{told}");
        assert!(!told.contains("secret@"), "{told}");
    }
}

#[test]
fn what_a_profile_lacks_is_told_where_it_is_used() {
    let unset =
        "FOLDER/config.yaml:4: profiles.staging.broker: the variable BROKER_PASSWORD is not set: set it";
    assert_eq!(refusal(FILE), unset);
    let told = refusal("default_profile: stagin\nprofiles: {staging: {}}\n");
    assert!(
        told.starts_with("there is no profile \"stagin\" (default_profile in FOLDER/config.yaml:1)"),
        "{told}"
    );
    assert!(told.ends_with("did you mean \"staging\"?"), "{told}");
    let told = refusal("default_profile: a\nprofiles: {a: {redis: redis://h, redis_password_file: none}}\n");
    assert!(told.contains("redis_password_file: cannot read FOLDER/none: No such file"), "{told}");
}

#[test]
fn a_reference_that_brings_a_password_leaves_no_room_for_another() {
    let (folder, options) =
        written("default_profile: a\nprofiles: {a: {broker: '${URL}', broker_password_file: pw}}\n");
    fs::write(folder.path().join("pw"), "new\n").unwrap();
    let told = |url| choose(&options, &variables(&[("URL", url)])).unwrap_err().to_string();
    assert!(told("amqp://u:old@h").contains("the URL has a password too: keep one"));
    assert!(told("amqp://h/v").contains("the URL names no user"));
    let choice = choose(&options, &variables(&[("URL", "amqp://u@h/v")])).unwrap();
    assert_eq!(choice.broker.unwrap().url, "amqp://u:new@h/v");
}

#[test]
fn a_password_that_others_may_read_is_noted() {
    let (_folder, options) = written("profiles: {a: {broker: 'amqp://u:secret@h'}}\n");
    let path = options.config.clone().unwrap();
    let notes = |mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        choose(&options, &variables(&[])).unwrap().notes
    };
    assert_eq!(notes(0o600), [""; 0]);
    let told = notes(0o644);
    assert!(told[0].contains("others may read it: chmod 600") && !told[0].contains("secret"), "{told:?}");
    fs::write(&path, "profiles: {a: {broker: 'amqp://u:${PW}@h'}}\n").unwrap();
    assert_eq!(notes(0o644), [""; 0]);
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let (_folder, options) = written(FILE);
    let path = options.config.clone().unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o606)).unwrap();
    let told = choose(&options, &variables(&[])).unwrap_err().to_string();
    assert!(told.contains("can be written by every user") && told.contains("chmod o-w"), "{told}");
}

#[test]
fn files_that_nobody_names_may_be_absent_or_empty() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().display().to_string();
    let choice = choose(&Options::default(), &variables(&[("XDG_CONFIG_HOME", &home)])).unwrap();
    assert!(choice.files.is_empty() && choice.profile.is_none() && choice.broker.is_none());
    fs::create_dir(folder.path().join("prs")).unwrap();
    fs::write(folder.path().join("prs/config.yaml"), "# nothing yet\n").unwrap();
    let choice = choose(&Options::default(), &variables(&[("XDG_CONFIG_HOME", &home)])).unwrap();
    assert_eq!((choice.files.len(), choice.absent), (1, vec![Path::new("prs.yaml").to_owned()]));
    let options = Options { config: Some(folder.path().join("none")), ..Options::default() };
    let told = choose(&options, &variables(&[])).unwrap_err().to_string();
    assert!(told.contains("none: No such file"), "{told}");
}

#[test]
fn the_first_file_says_how_a_bucket_is_reached() {
    let anonymous = |anonymous| Some(crate::storage::S3Options { anonymous, ..Default::default() });
    let file = |datastores: &[(&str, &str, Option<bool>)]| NamesOfFile {
        datastores: datastores
            .iter()
            .map(|(name, place, is_open)| {
                let s3 = is_open.and_then(anonymous);
                ((*name).to_owned(), Datastore { place: (*place).to_owned(), s3 })
            })
            .collect(),
        ..NamesOfFile::default()
    };
    let files = [
        file(&[("m", "s3://one/x", Some(true)), ("n", "s3://two", None), ("k", "/folder", None)]),
        file(&[
            ("z", "s3://one/y", Some(false)),
            ("o", "s3://two/o", Some(true)),
            ("p", "s3://three", Some(true)),
        ]),
        file(&[("q", "s3://three/q", None), ("m", "s3://three/m", None)]),
    ];
    let all = NamesOfFile::of_all(files.iter());
    for (name, place, s3) in [
        ("m", "s3://one/x", anonymous(true)),
        ("z", "s3://one/y", anonymous(true)),
        ("n", "s3://two", None),
        ("o", "s3://two/o", None),
        ("p", "s3://three", anonymous(true)),
        ("q", "s3://three/q", anonymous(true)),
        ("k", "/folder", None),
    ] {
        assert_eq!(all.datastores[name], Datastore { place: place.to_owned(), s3 }, "{name}");
    }
    let buckets: Vec<_> = all.buckets().into_iter().map(|(bucket, s3)| (bucket, s3.anonymous)).collect();
    assert_eq!(buckets, [("one".to_owned(), true), ("three".to_owned(), true)]);
}
