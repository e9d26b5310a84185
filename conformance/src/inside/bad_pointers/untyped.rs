// UNSAFETY: calls a thunk with arguments that are bad on purpose.
//! Pointers in structures that a thunk finds behind a pointer without a type: registry keys of physical adapters, names of objects, and command
//! buffers for tests.

use std::ptr::with_exposed_provenance_mut;

use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::pages::{Bad, Pages};
use crate::Failure;
use crate::cases::testing;
use crate::rig::{KernelHandle, Rig, shared_flags};
use crate::simulated::Case;

/// What a bad pointer may be answered with, where the thunk reads through it, or writes if `written`.
fn check(status: NTSTATUS, bad: Bad, written: bool, what: &str) -> Result<(), Failure> {
    let violates = bad.is_unreadable() || written && bad == Bad::ReadOnly;
    ensure!(!violates || status == STATUS_ACCESS_VIOLATION, "{what}, {bad:?}: {status}");
    ensure!(violates || status != STATUS_INTERNAL_ERROR, "{what}, {bad:?}: {status}");
    Ok(())
}

/// Both pointers of the question for a registry key, one of them bad.
fn key(rig: &Rig, pages: &mut Pages, bad: Bad) -> Result<(), Failure> {
    for of_text in [true, false] {
        pages.clear();
        let (mut text, mut count) = (pages.block(1024)?, pages.block(16)?);
        pages.write(count, &512_u32.to_le_bytes());
        let spoiled = if of_text { &mut text } else { &mut count };
        *spoiled = pages.spoil(*spoiled, bad);
        let mut asked = D3DKMT_QUERY_PHYSICAL_ADAPTER_PNP_KEY::zeroed();
        asked.PnPKeyType = D3DKMT_PNP_KEY_TYPE::D3DKMT_PNP_KEY_HARDWARE;
        (asked.pDest, asked.pCchDest) = (with_exposed_provenance_mut(text), with_exposed_provenance_mut(count));
        let status = rig.kmt.ask(rig.adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_PHYSICALADAPTERPNPKEY, &mut asked);
        check(status, bad, true, if of_text { "the place of a key" } else { "its size" })?;
    }
    Ok(())
}

/// An OBJECT_ATTRIBUTES whose pointer to the name is bad, or the name's pointer to its text.
fn attributes(pages: &mut Pages, bad: Bad, of_text: bool) -> Result<usize, Failure> {
    pages.clear();
    let (words, name, text) = (pages.block(64)?, pages.block(32)?, pages.block(64)?);
    let (name_at, text_at) = if of_text { (name, pages.spoil(text, bad)) } else { (pages.spoil(name, bad), text) };
    pages.write(text, &[b'n', 0, b'a', 0]);
    pages.write(name, &(4_u64 | 4 << 16).to_le_bytes());
    pages.write(name + 8, &text_at.to_le_bytes());
    pages.write(words, &48_u64.to_le_bytes());
    pages.write(words + 16, &name_at.to_le_bytes());
    Ok(words)
}

fn names(rig: &Rig, pages: &mut Pages, bad: Bad) -> Result<(), Failure> {
    let fence = rig.monitored_fence(0, shared_flags())?.handle;
    for of_text in [true, false] {
        let what = if of_text { "the text of a name" } else { "a name" };
        let words = attributes(pages, bad, of_text)?;
        let mut resource = D3DKMT_OPENNTHANDLEFROMNAME::zeroed();
        resource.pObjAttrib = with_exposed_provenance_mut(words);
        check(rig.kmt.call(rig.kmt.further().D3DKMTOpenNtHandleFromName, &mut resource), bad, false, what)?;
        let mut object = D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME::zeroed();
        object.pObjAttrib = with_exposed_provenance_mut(words);
        check(rig.kmt.call(rig.kmt.further().D3DKMTOpenSyncObjectNtHandleFromName, &mut object), bad, false, what)?;
        let mut handle = std::ptr::null_mut();
        let attributes = with_exposed_provenance_mut::<u8>(words).cast_const().cast();
        // SAFETY: the thunk takes any arguments, and checks every pointer.
        let status = unsafe {
            (rig.kmt.table().D3DKMTShareObjects)(1, &raw const fence, attributes, 0x1000_0000, &raw mut handle)
        };
        check(status, bad, false, what)?;
        if status.is_success() {
            crate::granted(KernelHandle(handle.addr()).close(), "closing what was shared")?;
        }
    }
    Ok(())
}

/// The places of a test command buffer and of its private data, which lie in the structure that an escape points to, one of them bad; and the
/// structure itself.
fn test_buffer(rig: &Rig, context: D3DKMT_HANDLE, pages: &mut Pages, bad: Bad) -> Result<(), Failure> {
    let mut asked = testing::request(rig, context, false, testing::fill(0x10_0000, 64));
    let status = testing::escape(rig, &mut asked);
    ensure_eq!(status, STATUS_BUFFER_OVERFLOW, "the question for the sizes");
    for spoiled in ["the commands", "their private data", "the request"] {
        pages.clear();
        let mut places = [pages.block(4096)?, pages.block(1024)?, pages.block(size_of_val(&asked) + 16)?];
        let at = ["the commands", "their private data", "the request"].iter().position(|name| *name == spoiled);
        let place = places.get_mut(at.unwrap_or_default()).ok_or_else(|| Failure::new("three places"))?;
        *place = pages.spoil(*place, bad);
        let [commands, private, request] = places;
        let mut arguments = asked;
        (arguments.pDmaBuffer, arguments.DmaBufferSize) = (with_exposed_provenance_mut(commands), 4096);
        (arguments.pDmaBufferPrivateData, arguments.DmaBufferPrivateDataSize) =
            (with_exposed_provenance_mut(private), 1024);
        if spoiled == "the request" {
            let status = testing::escape_at(rig, request);
            check(status, bad, false, spoiled)?;
            continue;
        }
        // NULL asks for the sizes, and private data that nothing is written to are not followed.
        let status = testing::escape(rig, &mut arguments);
        let written = spoiled == "the commands" || asked.DmaBufferPrivateDataSize != 0;
        if written {
            check(status, bad, true, spoiled)?;
        }
        ensure!(status != STATUS_INTERNAL_ERROR, "{spoiled}, {bad:?}: {status}");
    }
    Ok(())
}

pub(super) fn behind_untyped(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = testing::test_context(&rig, NODE_COPY, &mut [])
        .map_err(|status| Failure::new(format!("D3DKMTCreateContextVirtual: {status}")))?;
    let mut pages = Pages::new()?;
    let handles = || case.process.kernel_handle_count();
    let before = handles();
    for bad in Bad::ALL {
        key(&rig, &mut pages, bad)?;
        names(&rig, &mut pages, bad)?;
        test_buffer(&rig, context, &mut pages, bad)?;
    }
    ensure_eq!(handles(), before, "kernel handles after refused calls");
    Ok(())
}
