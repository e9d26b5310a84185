//! The commands of extensions that a device has only with the extension.

use core::ffi::CStr;

/// Extensions of devices with their commands.
const COMMANDS: &[(&str, &[&str])] = &[
    ("VK_KHR_bind_memory2", &["vkBindBufferMemory2KHR", "vkBindImageMemory2KHR"]),
    (
        "VK_KHR_buffer_device_address",
        &[
            "vkGetBufferDeviceAddressKHR",
            "vkGetBufferOpaqueCaptureAddressKHR",
            "vkGetDeviceMemoryOpaqueCaptureAddressKHR",
        ],
    ),
    ("VK_KHR_calibrated_timestamps", &["vkGetCalibratedTimestampsKHR"]),
    (
        "VK_KHR_copy_commands2",
        &[
            "vkCmdCopyBuffer2KHR",
            "vkCmdCopyImage2KHR",
            "vkCmdCopyBufferToImage2KHR",
            "vkCmdCopyImageToBuffer2KHR",
            "vkCmdBlitImage2KHR",
            "vkCmdResolveImage2KHR",
        ],
    ),
    (
        "VK_KHR_descriptor_update_template",
        &[
            "vkCreateDescriptorUpdateTemplateKHR",
            "vkDestroyDescriptorUpdateTemplateKHR",
            "vkUpdateDescriptorSetWithTemplateKHR",
        ],
    ),
    (
        "VK_KHR_device_group",
        &["vkGetDeviceGroupPeerMemoryFeaturesKHR", "vkCmdSetDeviceMaskKHR", "vkCmdDispatchBaseKHR"],
    ),
    #[cfg(not(windows))]
    ("VK_KHR_external_fence_fd", &["vkGetFenceFdKHR", "vkImportFenceFdKHR"]),
    #[cfg(not(windows))]
    ("VK_KHR_external_memory_fd", &["vkGetMemoryFdKHR", "vkGetMemoryFdPropertiesKHR"]),
    #[cfg(not(windows))]
    ("VK_KHR_external_semaphore_fd", &["vkGetSemaphoreFdKHR", "vkImportSemaphoreFdKHR"]),
    (
        "VK_KHR_get_memory_requirements2",
        &[
            "vkGetBufferMemoryRequirements2KHR",
            "vkGetImageMemoryRequirements2KHR",
            "vkGetImageSparseMemoryRequirements2KHR",
        ],
    ),
    ("VK_KHR_maintenance1", &["vkTrimCommandPoolKHR"]),
    ("VK_KHR_maintenance3", &["vkGetDescriptorSetLayoutSupportKHR"]),
    (
        "VK_KHR_maintenance4",
        &[
            "vkGetDeviceBufferMemoryRequirementsKHR",
            "vkGetDeviceImageMemoryRequirementsKHR",
            "vkGetDeviceImageSparseMemoryRequirementsKHR",
        ],
    ),
    ("VK_KHR_push_descriptor", &["vkCmdPushDescriptorSetKHR", "vkCmdPushDescriptorSetWithTemplateKHR"]),
    (
        "VK_KHR_synchronization2",
        &[
            "vkCmdSetEvent2KHR",
            "vkCmdResetEvent2KHR",
            "vkCmdWaitEvents2KHR",
            "vkCmdPipelineBarrier2KHR",
            "vkCmdWriteTimestamp2KHR",
            "vkQueueSubmit2KHR",
        ],
    ),
    ("VK_KHR_timeline_semaphore", &["vkGetSemaphoreCounterValueKHR", "vkWaitSemaphoresKHR", "vkSignalSemaphoreKHR"]),
    ("VK_EXT_calibrated_timestamps", &["vkGetCalibratedTimestampsEXT"]),
    (
        "VK_EXT_debug_utils",
        &[
            "vkSetDebugUtilsObjectNameEXT",
            "vkSetDebugUtilsObjectTagEXT",
            "vkQueueBeginDebugUtilsLabelEXT",
            "vkQueueEndDebugUtilsLabelEXT",
            "vkQueueInsertDebugUtilsLabelEXT",
            "vkCmdBeginDebugUtilsLabelEXT",
            "vkCmdEndDebugUtilsLabelEXT",
            "vkCmdInsertDebugUtilsLabelEXT",
        ],
    ),
    ("VK_EXT_device_fault", &["vkGetDeviceFaultInfoEXT"]),
    ("VK_EXT_host_query_reset", &["vkResetQueryPoolEXT"]),
    (
        "VK_EXT_private_data",
        &["vkCreatePrivateDataSlotEXT", "vkDestroyPrivateDataSlotEXT", "vkSetPrivateDataEXT", "vkGetPrivateDataEXT"],
    ),
];

/// True for a command of Vulkan itself, or of one of the extensions that are enabled.
pub(crate) fn is_command_of(name: &CStr, enabled: &[&str]) -> bool {
    let Ok(name) = name.to_str() else { return false };
    let is_of_extension = name.ends_with("KHR") || name.ends_with("EXT");
    let mut of_enabled = COMMANDS.iter().filter(|(extension, _)| enabled.contains(extension));
    !is_of_extension || of_enabled.any(|(_, commands)| commands.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical::EXTENSIONS;

    #[test]
    fn commands_of_extensions_need_the_extension() {
        assert!(is_command_of(c"vkQueueSubmit2", &[]));
        assert!(!is_command_of(c"vkQueueSubmit2KHR", &["VK_KHR_maintenance1"]));
        assert!(is_command_of(c"vkQueueSubmit2KHR", &["VK_KHR_maintenance1", "VK_KHR_synchronization2"]));
    }

    #[test]
    fn the_extensions_with_commands_are_extensions_of_the_driver() {
        for (extension, _) in COMMANDS {
            let is_of_instance = *extension == "VK_EXT_debug_utils";
            assert!(is_of_instance || EXTENSIONS.iter().any(|(known, _)| known == extension), "{extension}");
        }
    }
}
