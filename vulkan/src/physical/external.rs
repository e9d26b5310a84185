//! What can leave a device as a file descriptor, and come to it as one: memory, semaphores and fences, by opaque descriptors.

use ash::vk;

use crate::machine::HAS_DESCRIPTORS;

/// Properties of external memory with handles of this type.
pub(crate) fn external_memory(kind: vk::ExternalMemoryHandleTypeFlags) -> vk::ExternalMemoryProperties {
    type Features = vk::ExternalMemoryFeatureFlags;
    if !HAS_DESCRIPTORS || kind != vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD {
        return vk::ExternalMemoryProperties::default();
    }
    vk::ExternalMemoryProperties {
        external_memory_features: Features::EXPORTABLE | Features::IMPORTABLE,
        export_from_imported_handle_types: kind,
        compatible_handle_types: kind,
    }
}

/// Fills what is told of semaphores with handles of a type.
pub(crate) fn external_semaphore(
    kind: vk::ExternalSemaphoreHandleTypeFlags,
    told: &mut vk::ExternalSemaphoreProperties<'_>,
) {
    type Features = vk::ExternalSemaphoreFeatureFlags;
    let there = HAS_DESCRIPTORS && kind == vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;
    let types = if there { kind } else { Default::default() };
    (told.export_from_imported_handle_types, told.compatible_handle_types) = (types, types);
    told.external_semaphore_features =
        if there { Features::EXPORTABLE | Features::IMPORTABLE } else { Features::empty() };
}

/// Fills what is told of fences with handles of a type.
pub(crate) fn external_fence(kind: vk::ExternalFenceHandleTypeFlags, told: &mut vk::ExternalFenceProperties<'_>) {
    type Features = vk::ExternalFenceFeatureFlags;
    let there = HAS_DESCRIPTORS && kind == vk::ExternalFenceHandleTypeFlags::OPAQUE_FD;
    let types = if there { kind } else { Default::default() };
    (told.export_from_imported_handle_types, told.compatible_handle_types) = (types, types);
    told.external_fence_features = if there { Features::EXPORTABLE | Features::IMPORTABLE } else { Features::empty() };
}
