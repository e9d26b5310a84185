//! Waits of the processor.

use super::*;

#[test]
fn waits_enter_the_kernel_only_when_the_value_is_not_there() {
    let device = device();
    let fence = Fence::new(&device, 3).unwrap();
    let waits = || os(|fake| fake.count("D3DKMTWaitForSynchronizationObjectFromCpu"));
    fence.wait(3, None).unwrap();
    fence.wait(2, Some(Duration::ZERO)).unwrap();
    assert!(fence.spin(3, 1) && !fence.spin(4, 10));
    assert_eq!(fence.wait(4, Some(Duration::ZERO)), Err(Error::Timeout));
    assert_eq!(waits(), 0);
    assert_eq!(fence.wait(4, Some(Duration::from_millis(1))), Err(Error::Timeout));
    assert_eq!(waits(), 1);
    // The event of the wait that gave up is set later and harms nobody.
    fence.signal(4).unwrap();
    fence.wait(4, Some(Duration::from_secs(1))).unwrap();
    assert_eq!(waits(), 1);
}

#[test]
fn a_wait_with_a_limit_ends_when_the_gpu_signals() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    let mut queue = queue(&device);
    queue.submit(|commands| commands.signal(&fence, 1)).unwrap();
    fence.wait(1, Some(Duration::from_secs(3600))).unwrap();
    assert_eq!(fence.value(), 1);
}

#[test]
fn a_lost_device_ends_waits_with_its_name() {
    let device = device();
    let fence = Fence::new(&device, 0).unwrap();
    os(|fake| fake.lost = true);
    assert_eq!(fence.wait(1, None), Err(Error::DeviceLost));
    assert_eq!(fence.wait(1, Some(Duration::from_secs(1))), Err(Error::DeviceLost));
    // All ones is what a reset leaves; alone it proves nothing.
    fence.signal(u64::MAX).unwrap();
    assert_eq!(fence.wait(1, None), Err(Error::DeviceLost));
    os(|fake| fake.lost = false);
    fence.wait(1, None).unwrap();
    fence.wait(u64::MAX, None).unwrap();
}
