//! Long strings and snapshots: once each, bounded, and never taken for what they are not.
use super::{super::blobs, *};

fn count(place: &Place, table: &str) -> i64 {
    place.raw().query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).unwrap()
}

#[test]
fn the_same_content_is_kept_once() {
    let place = Place::new();
    let (a, b) = (place.session(), place.session());
    let (old, new) = ("old\n".repeat(1000), "new\n".repeat(1000));
    let entries =
        vec![at(0, result(&new, vec![diff(&old, &new)])), at(1, result("short", vec![diff(&new, &old)]))];
    for id in [&a, &b] {
        place.store.append(id.clone(), entries.clone()).wait().unwrap();
    }
    assert_eq!(count(&place, "blob"), 2);
    // A snapshot of the same bytes is the same blob.
    let blob = place.store.put_blob(a.clone(), old.clone().into_bytes()).wait().unwrap();
    assert_eq!(count(&place, "blob"), 2);
    assert_eq!(place.other().get_blob(blob).wait().unwrap(), Some(old.into_bytes()));
    for id in [a, b] {
        assert_eq!(place.store.load(id.clone()).wait().unwrap().entries, entries);
        place.store.delete(id).wait().unwrap();
    }
    assert_eq!((count(&place, "blob"), count(&place, "blob_use")), (0, 0));
}

#[test]
fn snapshots_are_bounded_and_the_oldest_go() {
    let place = Place::new();
    let id = place.session();
    let big = vec![0; SNAPSHOT_LIMIT as usize + 1];
    assert!(matches!(place.store.put_blob(id.clone(), big).wait(), Err(StoreError::TooLarge { .. })));
    let put = |byte: u8| place.store.put_blob(id.clone(), vec![byte; 100]).wait().unwrap();
    let all: Vec<BlobId> = (0..5).map(put).collect();
    // One of them is also a text of an entry: it must stay.
    place.raw().execute("UPDATE blob_use SET at = blob", []).unwrap();
    let (key, first): (i64, i64) = place
        .raw()
        .query_row("SELECT session, min(blob) FROM blob_use", [], |r| Ok((r.get(0)?, r.get(1)?)))
        .unwrap();
    place.raw().execute("INSERT INTO blob_use VALUES (?1, 0, ?2, 0)", [key, first]).unwrap();
    place.store.writing(move |cx| cx.drop_old_snapshots(key, 250)).wait().unwrap();
    let kept: Vec<bool> = all.iter().map(|b| place.store.get_blob(*b).wait().unwrap().is_some()).collect();
    assert_eq!(kept, [true, false, false, true, true]);
    assert_eq!(count(&place, "blob_use"), 3);
}

#[test]
fn ids_print_and_parse() {
    let id = BlobId::of(b"abc");
    assert_eq!(id.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(BlobId::parse(&id.to_string()), Some(id));
    for bad in ["", "ba78", &"g".repeat(64), &format!("{id}0"), &"é".repeat(32)] {
        assert_eq!(BlobId::parse(bad), None, "{bad}");
    }
}

/// Folding and unfolding is the identity, whatever a person writes.
#[test]
fn what_looks_like_a_marker_is_not_one() {
    let hash = BlobId::of(b"abc").to_string();
    let long = "x\"{\"$blob\":\"".repeat(200);
    let cases = [
        json!({ "$blob": hash }),
        json!({ "$blob": hash, "b": 1 }),
        json!({ "$$blob": hash }),
        json!({ "$blob": { "$$$blob": long } }),
        json!({ "a": format!("{{\"$blob\":\"{hash}\"}}") }),
        json!(["$$blob", "$blob", "{\"$blob\":\""]),
        json!({ "x\"$$blob": 1, "y,\"$$blob": 2, "$blo": 3, "blob": 4, "$": 5 }),
        json!({ "a": { "$blob": [1, { "$$blob": "é".repeat(600) }] } }),
        json!({ "$blob": long, "c": long }),
        json!("\u{0}\u{7f}\u{2028}\\\"".repeat(300)),
    ];
    for case in cases {
        let mut kept = std::collections::HashMap::new();
        let mut folded = case.clone();
        blobs::fold(&mut folded, &mut |text: &str| {
            let id = BlobId::of(text.as_bytes());
            kept.insert(id, text.to_owned());
            Ok(id)
        })
        .unwrap();
        let json = folded.to_string();
        assert!(!kept.is_empty() || json.len() < 400, "{json}");
        let back = blobs::unfold(&json, |id, out| {
            out.extend(kept.get(&id).map(|text| json!(text).to_string()));
            Ok::<_, ()>(kept.contains_key(&id))
        })
        .unwrap()
        .unwrap();
        assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), case, "{json}");
        if !blobs::needs_fold(&case.to_string()) {
            assert_eq!(json, case.to_string(), "what is not folded must need no unfolding");
        }
    }
    assert_eq!(blobs::unfold(&format!("{{\"$blob\":\"{hash}\"}}"), |_, _| Ok::<_, ()>(false)), Ok(None));
}

/// Issue 4: the store takes at most 1.5 times the distinct bytes that were shown, sent and snapshotted.
#[test]
fn the_file_is_not_much_larger_than_what_it_holds() {
    let place = Place::new();
    let id = place.session();
    let mut distinct = 0;
    let mut entries = Vec::new();
    let mut file: String = (0..400).map(|i| format!("    let value_{i} = compute({i});\n")).collect();
    for turn in 0..60u64 {
        let prompt = format!("Please change step {turn} so that value {} is right. ", turn * 7).repeat(3);
        let answer =
            format!("I looked at step {turn} and changed the computation of {}. ", turn * 7).repeat(12);
        let changed = file.replace(&format!("compute({turn})"), &format!("compute({turn} + 1)"));
        let output: String = (0..40).map(|i| format!("test case_{turn}_{i} ... ok\n")).collect();
        distinct += prompt.len() + answer.len() + changed.len() + output.len();
        let seq = turn * 4;
        entries.extend([
            at(seq, user(&prompt)),
            at(seq + 1, assistant(&answer)),
            at(seq + 2, result("edited", vec![diff(&file, &changed)])),
            at(seq + 3, result(&output, vec![Shown::Text { text: output.clone() }])),
        ]);
        place.store.put_blob(id.clone(), file.clone().into_bytes()).wait().unwrap();
        file = changed;
    }
    place.store.append(id, entries).wait().unwrap();
    let words = Search { text: "computation".into(), ..Search::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(!runtime.block_on(place.store.search(words)).unwrap().is_empty());
    place.raw().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let size = fs::metadata(place.dirs.database()).unwrap().len() as f64;
    let ratio = size / distinct as f64;
    assert!(ratio < 1.5, "{size} bytes for {distinct}: {ratio:.2}");
}
