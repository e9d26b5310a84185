//! Owners of memory see their own pages in their files, and nothing of each other.

use std::os::unix::fs::FileExt;

use super::*;

const SIZE: u64 = 1 << 20;

fn store(pages: &Pages, value: u8) {
    // SAFETY: the pages belong to the test.
    unsafe { pages.kernel_address().as_ptr().write_bytes(value, pages.len() as usize) };
}

fn load(pages: &Pages) -> u8 {
    // SAFETY: the pages belong to the test.
    unsafe { pages.kernel_address().as_ptr().read_volatile() }
}

/// Bytes of a file other than zero, behind the page at address 0: first and last offset of each run, and the value.
fn contents(file: &File) -> Vec<(u64, u64, u8)> {
    let mut bytes = vec![0; (SIZE - PAGE_SIZE) as usize];
    file.read_exact_at(&mut bytes, PAGE_SIZE).unwrap();
    let mut runs: Vec<(u64, u64, u8)> = Vec::new();
    for (at, byte) in (PAGE_SIZE..).zip(bytes).filter(|(_, byte)| *byte != 0) {
        match runs.last_mut() {
            Some((_, end, value)) if *end == at && *value == byte => *end += 1,
            _ => runs.push((at, at + 1, byte)),
        }
    }
    runs
}

fn run(pages: &Pages, value: u8) -> (u64, u64, u8) {
    (pages.address(), pages.address() + pages.len(), value)
}

#[test]
fn the_file_of_an_owner_has_its_pages_at_their_addresses_and_nothing_else() {
    let ram = Ram::new(SIZE).unwrap();
    let (one, other) = (Owner::process(&ram).unwrap(), Owner::shared(&ram).unwrap());
    let kernel = ram.allocate(3 * PAGE_SIZE, PAGE_SIZE).unwrap();
    let pages = [&one, &other, &one].map(|owner| owner.allocate(2 * PAGE_SIZE, PAGE_SIZE).unwrap());
    store(&kernel, 9);
    for (value, pages) in (1..).zip(&pages) {
        store(pages, value);
    }
    assert_eq!(contents(pages[0].file().unwrap()), [run(&pages[0], 1), run(&pages[2], 3)]);
    assert_eq!(contents(pages[1].file().unwrap()), [run(&pages[1], 2)]);
    // What is stored in a file where its owner has nothing reaches nobody.
    pages[0].file().unwrap().write_all_at(&[7; 3 * PAGE_SIZE as usize], kernel.address()).unwrap();
    pages[0].file().unwrap().write_all_at(&[7; PAGE_SIZE as usize], pages[1].address()).unwrap();
    assert_eq!((load(&kernel), load(&pages[1])), (9, 2));
    assert_eq!(kernel.file().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert!(ram.file().is_none());
}

#[test]
fn the_page_at_address_0_is_nobodys_and_is_not_zero() {
    for ram in [Ram::new(SIZE).unwrap(), Ram::in_one_file(SIZE).unwrap()] {
        let start = ram.kernel_address(0, PAGE_SIZE).unwrap();
        let mut bytes = vec![0; PAGE_SIZE as usize];
        // SAFETY: a page of the machine's memory, which nobody writes.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(start.as_ptr(), bytes.len()) };
        assert!(bytes.iter().all(|byte| *byte == NOBODYS));
        let all = ram.allocate(SIZE - PAGE_SIZE, PAGE_SIZE).unwrap();
        assert_eq!(all.address(), PAGE_SIZE);
    }
}

#[test]
fn a_file_that_somebody_keeps_shows_nothing_of_later_owners() {
    let ram = Ram::new(SIZE).unwrap();
    let all = SIZE - PAGE_SIZE;
    let one = Owner::process(&ram).unwrap();
    let pages = one.allocate(all, PAGE_SIZE).unwrap();
    let kept = pages.file().unwrap().try_clone().unwrap();
    store(&pages, 1);
    drop(pages);
    // The owner keeps what it may need again, as long as nobody else needs it.
    let other = Owner::process(&ram).unwrap();
    let pages = other.allocate(all, PAGE_SIZE).unwrap();
    store(&pages, 2);
    assert_eq!(contents(&kept), []);
    assert_eq!(contents(pages.file().unwrap()), [run(&pages, 2)]);
    let kept = [kept, pages.file().unwrap().try_clone().unwrap()];
    drop((pages, one, other));
    let pages = ram.allocate(all, PAGE_SIZE).unwrap();
    store(&pages, 3);
    assert!(kept.iter().all(|file| contents(file).is_empty()));
}

#[test]
fn what_is_to_be_read_lies_in_a_file_that_only_the_kernel_writes() {
    let ram = Ram::new(SIZE).unwrap();
    let owner = Owner::reading_process(&ram).unwrap();
    let pages = owner.allocate(PAGE_SIZE, PAGE_SIZE).unwrap();
    store(&pages, 4);
    let file = pages.file().unwrap();
    assert!(pages.only_read() && !ram.allocate(1, 1).unwrap().only_read());
    assert_eq!(contents(file), [run(&pages, 4)]);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    let again = File::options().read(true).write(true).open(path).unwrap();
    for file in [file, &again] {
        assert!(map_shared(file, pages.address(), PAGE_SIZE, true).is_err());
        assert!(file.write_at(&[5], pages.address()).is_err());
    }
    // The kernel goes on writing all of its pages, those of later extents too.
    let more = owner.allocate(SIZE / 2, PAGE_SIZE).unwrap();
    store(&more, 5);
    store(&pages, 6);
    let mut expected = [run(&pages, 6), run(&more, 5)];
    expected.sort_unstable();
    assert_eq!(contents(file), expected);
}

#[test]
fn every_page_serves_every_owner_and_what_is_gone_is_free() {
    let ram = Ram::new(SIZE).unwrap();
    let all = ram.free_bytes();
    let owners = [Owner::process(&ram).unwrap(), Owner::reading_process(&ram).unwrap(), Owner::shared(&ram).unwrap()];
    for owner in &owners {
        let pages: Vec<Pages> = std::iter::from_fn(|| owner.allocate(1, 1)).collect();
        assert_eq!(pages.len() as u64 * PAGE_SIZE, all);
        assert_eq!(ram.free_bytes(), 0);
        pages.iter().for_each(|page| store(page, 1));
        drop(pages);
        assert_eq!(ram.free_bytes(), all);
    }
    let pages = ram.allocate(all, PAGE_SIZE).unwrap();
    drop((owners, pages));
    assert!(ram.allocate(all, PAGE_SIZE).is_some());
    assert!(ram.allocate(all + 1, PAGE_SIZE).is_none());
}

#[test]
fn memory_of_one_file_has_the_pages_of_all() {
    let ram = Ram::in_one_file(SIZE).unwrap();
    let owner = Owner::reading_process(&ram).unwrap();
    let pages = [ram.allocate(PAGE_SIZE, PAGE_SIZE).unwrap(), owner.allocate(PAGE_SIZE, PAGE_SIZE).unwrap()];
    store(&pages[0], 1);
    store(&pages[1], 2);
    assert_eq!(contents(pages[1].file().unwrap()), [run(&pages[0], 1), run(&pages[1], 2)]);
    assert!(ram.file().is_some() && pages[1].only_read());
}

#[test]
fn a_page_is_shown_a_second_time_whoever_has_it() {
    let ram = Ram::new(SIZE).unwrap();
    let owner = Owner::reading_process(&ram).unwrap();
    for pages in [ram.allocate(1, 1).unwrap(), owner.allocate(1, 1).unwrap()] {
        let second = map_shared(&new_file(c"page", PAGE_SIZE).unwrap(), 0, PAGE_SIZE, true).unwrap();
        // SAFETY: the page was mapped for that.
        unsafe { ram.show_page_again(pages.address(), second) }.unwrap();
        // SAFETY: mapped.
        unsafe { second.as_ptr().write_volatile(8) };
        assert_eq!(load(&pages), 8);
        // SAFETY: as mapped above, and used by nobody any more.
        unsafe { libc::munmap(second.as_ptr().cast(), PAGE_SIZE as usize) };
    }
}

/// A process that is asked for nothing any more shows the place that memory had before a move which has ended without it.
#[test]
fn what_owners_give_back_stays_in_their_files_once_the_machine_is_about_to_end() {
    let ram = Ram::new(SIZE).unwrap();
    let (owner, other) = (Owner::process(&ram).unwrap(), Owner::process(&ram).unwrap());
    let pages = owner.allocate(PAGE_SIZE, PAGE_SIZE).unwrap();
    store(&pages, 7);
    let (file, run) = (pages.file().unwrap().try_clone().unwrap(), run(&pages, 7));
    ram.keep_for_owners();
    drop((pages, owner));
    let all = other.allocate(SIZE - PAGE_SIZE, PAGE_SIZE).expect("memory is given to others still");
    store(&all, 9);
    assert_eq!(contents(&file), [run]);
}

/// Stores and frees of the kernel are not seen, and what it stored before is.
#[test]
fn a_machine_at_its_end_leaves_owners_what_they_have() {
    let ram = Ram::new(SIZE).unwrap();
    let owners = [Owner::process(&ram).unwrap(), Owner::reading_process(&ram).unwrap(), Owner::shared(&ram).unwrap()];
    let pages: Vec<Pages> = owners.iter().map(|owner| owner.allocate(PAGE_SIZE, PAGE_SIZE).unwrap()).collect();
    pages.iter().for_each(|pages| store(pages, 7));
    let files: Vec<File> = pages.iter().map(|pages| pages.file().unwrap().try_clone().unwrap()).collect();
    let runs: Vec<_> = pages.iter().map(|pages| run(pages, 7)).collect();
    ram.leave_to_owners();
    ram.leave_to_owners();
    assert!(pages.iter().all(|pages| load(pages) == 7), "the kernel sees what was there");
    pages.iter().for_each(|pages| store(pages, 9));
    assert!(pages.iter().all(|pages| load(pages) == 9));
    drop(pages);
    drop(owners);
    for (file, run) in files.iter().zip(runs) {
        assert_eq!(contents(file), [run]);
    }
    assert_eq!(ram.free_bytes(), SIZE - PAGE_SIZE);
}
