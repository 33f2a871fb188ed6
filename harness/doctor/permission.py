"""May this process read the GPU's counters? Says the fix for this set-up, not all of them."""

from __future__ import annotations

from rooflens.harness.doctor.software import version_numbers
from rooflens.harness.doctor.surroundings import Surroundings
from rooflens.model import Check

PERFMON_DRIVER = 565
"""From this driver branch on CAP_PERFMON is enough; before it CAP_SYS_ADMIN was needed."""
MODPROBE = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | "
    "sudo tee /etc/modprobe.d/nvidia-profiling.conf, rebuild the initramfs, reboot"
)


def counter_permission(found: Surroundings) -> Check:
    """The driver's setting and this process's capabilities, before any model is loaded."""
    if not found.gpus and not found.driver:
        return Check(
            id="counter-permission",
            outcome="could_not_look",
            message="There is no NVIDIA driver: no counters to be allowed or refused.",
        )
    if found.can_profile:
        message = "This process holds the capability that opens the counters."
        return Check(id="counter-permission", outcome="passed", message=message)
    if found.admin_only is False:
        message = "The driver lets every user read the counters."
        return Check(id="counter-permission", outcome="passed", message=message)
    if found.admin_only is None:
        return Check(
            id="counter-permission",
            outcome="could_not_look",
            message="/proc/driver/nvidia/params cannot be read: only a real capture will tell.",
            fix="Try `profile run decode --evidence counters`; ERR_NVGPUCTRPERM means refused.",
        )
    return Check(
        id="counter-permission",
        outcome="failed",
        message="Counters are for administrators only here (RmProfilingAdminOnly: 1): ncu will "
        "stop with ERR_NVGPUCTRPERM. Timelines and counted bytes still work.",
        fix=_fix(found),
    )


def _fix(found: Surroundings) -> str:
    driver = found.gpus[0].driver if found.gpus else found.driver
    branch = (version_numbers(driver) or (0,))[0]
    capability = "PERFMON" if branch >= PERFMON_DRIVER else "SYS_ADMIN"
    if found.container:
        return (
            f"Start the container with --cap-add={capability} (Kubernetes: "
            f'securityContext.capabilities.add: ["{capability}"]); '
            "many rented GPUs do not allow it."
        )
    return f"Run with sudo, or allow everybody: {MODPROBE}."
