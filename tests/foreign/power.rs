//! The driver in C with a power component for its engine, and the mistakes that are made in it.

use crate::mistakes::Broken;

/// Changes to the driver that make it manage the power of its engine at run time.
pub(crate) const WITH_COMPONENT: [(&str, &str); 6] = [
    (
        "    caps->SupportPerEngineTDR = 1;\n",
        "    caps->SupportPerEngineTDR = 1;\n    caps->SupportRuntimePowerManagement = 1;\n",
    ),
    (
        "    case DXGKQAITYPE_NUMPOWERCOMPONENTS: need = sizeof(UINT); break;\n",
        "    case DXGKQAITYPE_NUMPOWERCOMPONENTS: need = sizeof(UINT); break;\n    \
         case DXGKQAITYPE_POWERCOMPONENTINFO: need = sizeof(DXGK_POWER_RUNTIME_COMPONENT); break;\n",
    ),
    (
        "    } else if (args->Type == DXGKQAITYPE_HISTORYBUFFERPRECISION) {\n",
        "    } else if (args->Type == DXGKQAITYPE_NUMPOWERCOMPONENTS) {\n        *(UINT *)args->pOutputData = 1;\n    \
         } else if (args->Type == DXGKQAITYPE_POWERCOMPONENTINFO) {\n        engine_component(args->pOutputData);\n    \
         } else if (args->Type == DXGKQAITYPE_HISTORYBUFFERPRECISION) {\n",
    ),
    (
        "static NTSTATUS query_adapter_info(HANDLE handle, const DXGKARG_QUERYADAPTERINFO *args)\n",
        "static VOID engine_component(DXGK_POWER_RUNTIME_COMPONENT *component)\n{\n    \
             component->StateCount = 2;\n    component->States[0].NominalPower = 2;\n    \
             component->States[1].TransitionLatency = 1;\n    component->States[1].NominalPower = 1;\n    \
             component->ComponentMapping.ComponentType = DXGK_POWER_COMPONENT_ENGINE;\n    \
             component->Flags.DriverCompletesFStateTransition = 1;\n    component->ComponentGuid.Data1 = 1;\n    \
             component->ComponentName[0] = 't';\n}\n\n\
         static NTSTATUS set_power_component_fstate(PVOID context, UINT component, UINT state)\n{\n    \
             struct adapter *adapter = context;\n    UNREFERENCED_PARAMETER(state);\n    \
             adapter->interface.DxgkCbCompleteFStateTransition(adapter->handle, component);\n    \
             return STATUS_SUCCESS;\n}\n\n\
         static NTSTATUS power_request(PVOID context, const GUID *code, VOID *in, SIZE_T in_size, VOID *out, SIZE_T out_size, SIZE_T *returned)\n{\n    \
             UNREFERENCED_PARAMETER(context);\n    UNREFERENCED_PARAMETER(code);\n    UNREFERENCED_PARAMETER(in);\n    UNREFERENCED_PARAMETER(in_size);\n    \
             UNREFERENCED_PARAMETER(out);\n    UNREFERENCED_PARAMETER(out_size);\n    *returned = 0;\n    return STATUS_SUCCESS;\n}\n\n\
         static NTSTATUS query_adapter_info(HANDLE handle, const DXGKARG_QUERYADAPTERINFO *args)\n",
    ),
    (
        "    data.DxgkDdiSetStablePowerState = set_stable_power_state;\n",
        "    data.DxgkDdiSetStablePowerState = set_stable_power_state;\n    \
         data.DxgkDdiSetPowerComponentFState = set_power_component_fstate;\n",
    ),
    (
        "    data.DxgkDdiFormatHistoryBuffer = format_history_buffer;\n",
        "    data.DxgkDdiFormatHistoryBuffer = format_history_buffer;\n    data.DxgkDdiPowerRuntimeControlRequest = power_request;\n",
    ),
];

pub(crate) const BROKEN_POWER: &[Broken] = &[
    Broken {
        name: "transition-never-completed",
        old: "    adapter->interface.DxgkCbCompleteFStateTransition(adapter->handle, component);\n",
        new: "    (void)adapter;\n    (void)component;\n",
        case: "AnyDriver.EnginesRestInF1AndWork",
        told: &[
            "0x113",
            "the transition of component 0 to F1 was not completed within 2 s: DxgkDdiSetPowerComponentFState was called",
            "expected was DxgkCbCompleteFStateTransition",
        ],
    },
    Broken {
        name: "transition-completed-twice",
        old: "    adapter->interface.DxgkCbCompleteFStateTransition(adapter->handle, component);\n",
        new: "    adapter->interface.DxgkCbCompleteFStateTransition(adapter->handle, component);\n    \
              adapter->interface.DxgkCbCompleteFStateTransition(adapter->handle, component);\n",
        case: "AnyDriver.EnginesRestInF1AndWork",
        told: &[
            "DxgkCbCompleteFStateTransition(0): the transition was completed already",
            "in DxgkDdiSetPowerComponentFState in toy",
        ],
    },
    Broken {
        name: "transition-refused",
        old: "    UNREFERENCED_PARAMETER(state);\n    adapter->interface",
        new: "    if (state == 1)\n        return STATUS_UNSUCCESSFUL;\n    adapter->interface",
        case: "AnyDriver.EnginesRestInF1AndWork",
        told: &["DxgkDdiSetPowerComponentFState(0, F1) may not fail, it answered STATUS_UNSUCCESSFUL"],
    },
];
