//! Buffers that are offered and reclaimed.

mod fake;

use campanile_umd::*;
use fake::*;
use wddm_ddi::kmt::{D3DDDI_RECLAIM_RESULT, D3DKMT_OFFER_PRIORITY};
use wddm_ddi::status::*;

fn buffer() -> Buffer {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    device.create_buffer(4096, Placement::System).unwrap()
}

#[test]
fn each_priority_reaches_the_system_and_each_answer_the_caller() {
    let buffer = buffer();
    os(|fake| fake.pending = true);
    for (priority, told) in [(OfferPriority::Low, 1), (OfferPriority::Normal, 2), (OfferPriority::High, 3)] {
        for (answer, expected) in [
            (D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_OK, Ok(Reclaimed::Kept)),
            (D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_DISCARDED, Ok(Reclaimed::Discarded)),
            (D3DDDI_RECLAIM_RESULT(9), Err(Error::BadAnswer("D3DKMTReclaimAllocations2 gave an unknown result"))),
        ] {
            os(|fake| fake.reclaims = answer);
            buffer.offer(priority).unwrap();
            assert_eq!(buffer.reclaim(), expected);
            assert_eq!(os(|fake| fake.offers.pop()), Some(D3DKMT_OFFER_PRIORITY(told)));
        }
    }
    drop(buffer);
    os(|fake| fake.assert_clean());
}

#[test]
fn refusals_keep_the_status_and_the_name_of_the_thunk() {
    let buffer = buffer();
    let refused = |thunk| Err(Error::Status(STATUS_INVALID_PARAMETER, thunk));
    assert_eq!(buffer.reclaim(), refused("D3DKMTReclaimAllocations2").map(|()| Reclaimed::Kept));
    let mapping = buffer.map().unwrap();
    assert_eq!(buffer.offer(OfferPriority::Low), refused("D3DKMTOfferAllocations"));
    drop(mapping);
    buffer.offer(OfferPriority::Low).unwrap();
    assert_eq!(buffer.offer(OfferPriority::Low), refused("D3DKMTOfferAllocations"));
    os(|fake| fake.fail_names = vec![("D3DKMTReclaimAllocations2", STATUS_NO_MEMORY)]);
    assert_eq!(buffer.reclaim(), Err(Error::Status(STATUS_NO_MEMORY, "D3DKMTReclaimAllocations2")));
    os(|fake| fake.fail_names.clear());
    assert_eq!(buffer.reclaim(), Ok(Reclaimed::Kept), "it stayed offered");
    drop(buffer);
    os(|fake| fake.assert_clean());
}
