"""Pulseq sequences made with pypulseq, and what a scanner would measure with them of a phantom of ellipses."""

import numpy as np

FOV, N = 0.256, 64  # m, voxels
# Density, centre, half axes (in fields of view) and turn.
ELLIPSES = (
    (1.0, 0.02, -0.01, 0.36, 0.42, 0.1),
    (-0.6, 0.1, 0.12, 0.1, 0.16, 0.5),
    (0.8, -0.13, -0.15, 0.07, 0.05, 0.0),
    (0.5, 0.22, -0.2, 0.04, 0.04, 0.0),
)


def signal(kx, ky):
    """The phantom's transform, k in cycles per field of view: a disc's is J1(2 pi k) / k."""
    from scipy.special import j1

    out = np.zeros(np.broadcast_shapes(np.shape(kx), np.shape(ky)), complex)
    for density, x, y, a, b, turn in ELLIPSES:
        u, v = kx * np.cos(turn) + ky * np.sin(turn), ky * np.cos(turn) - kx * np.sin(turn)
        radius = np.maximum(2 * np.pi * np.hypot(a * u, b * v), 1e-9)
        out += density * 2 * np.pi * a * b * j1(radius) / radius * np.exp(-2j * np.pi * (kx * x + ky * y))
    return out


def label(name, value, how="SET"):
    import pypulseq

    return pypulseq.make_label(type=how, label=name, value=value)


class Maker:
    """A sequence that begins: its pulse, readout and prephaser."""

    def __init__(self, degrees=15, samples=N, flat_s=2.56e-3):
        import pypulseq as pp

        self.pp = pp
        self.system = pp.Opts(max_grad=28, grad_unit="mT/m", max_slew=120, slew_unit="T/m/s", rf_ringdown_time=20e-6,
                              rf_dead_time=100e-6, adc_dead_time=10e-6)  # fmt: skip
        self.seq = pp.Sequence(self.system)
        self.seq.set_definition("FOV", [FOV, FOV, 0.005])
        self.rf, self.gz, self.rewind = pp.make_sinc_pulse(
            flip_angle=np.deg2rad(degrees), duration=1e-3, slice_thickness=0.005, system=self.system, return_gz=True,
            use="excitation")  # fmt: skip
        self.read = self.trapezoid("x", flat_area=N / FOV, flat_time=flat_s)
        self.adc = pp.make_adc(samples, duration=flat_s, delay=self.read.rise_time, system=self.system)
        self.back = self.trapezoid("x", area=-self.read.area / 2, duration=1e-3)

    def trapezoid(self, axis, **options):
        return self.pp.make_trapezoid(axis, system=self.system, **options)


def cartesian(labels=True, sign=1):
    """Lines from -N/2 on, twice oversampled; with the sign -1 a spin echo that turns them round."""
    m = Maker(samples=2 * N)
    refocus = m.pp.make_block_pulse(np.pi, duration=500e-6, system=m.system, use="refocusing")
    for line in range(N):
        m.seq.add_block(m.rf, m.gz)
        area = sign * (line - N // 2) / FOV
        m.seq.add_block(m.pp.scale_grad(m.back, sign), m.trapezoid("y", area=area, duration=1e-3), m.rewind)
        if sign < 0:
            m.seq.add_block(refocus)
        m.seq.add_block(m.read, m.adc, *([label("LIN", line)] if labels else []))
        m.seq.add_block(m.pp.make_delay(5e-3))
    return m.seq


def spin_echo():
    return cartesian(labels=False, sign=-1)


def radial(spokes=101):
    m = Maker(samples=2 * N)
    for spoke in range(spokes):
        angle = np.pi * spoke / spokes
        m.seq.add_block(m.rf, m.gz)
        m.seq.add_block(*m.pp.rotate(m.back, m.rewind, angle=angle, axis="z"))
        m.seq.add_block(*m.pp.rotate(m.read, m.adc, angle=angle, axis="z"), label("LIN", spoke))
    return m.seq


def spokes_along_x(spokes=101):
    """What `radial` turns, not turned."""
    m = Maker(samples=2 * N)
    for _ in range(spokes):
        m.seq.add_block(m.rf, m.gz)
        m.seq.add_block(m.back, m.rewind)
        m.seq.add_block(m.read, m.adc)
    return m.seq


def epi(ramps=True):
    """One shot behind three navigators, with samples on the ramps or not."""
    m = Maker(degrees=90, samples=N, flat_s=640e-6)
    if ramps:
        m.read = m.trapezoid("x", area=1.25 * N / FOV, duration=640e-6)
        m.back = m.trapezoid("x", area=-m.read.area / 2, duration=1e-3)
        m.adc = m.pp.make_adc(154, dwell=4e-6, delay=12e-6, system=m.system)  # in the middle of 640 us
    reads = m.read, m.pp.scale_grad(m.read, -1)
    m.seq.add_block(m.rf, m.gz)
    m.seq.add_block(m.back, m.rewind)
    m.seq.add_block(label("NAV", 1), label("LIN", N // 2))
    for n in range(3):
        m.seq.add_block(reads[n % 2], m.adc, label("REV", n % 2))
    m.seq.add_block(m.back)
    down = m.trapezoid("y", area=-(N // 2) / FOV, duration=1e-3)
    m.seq.add_block(m.back, down, label("NAV", 0), label("LIN", -1))
    for n in range(N):
        m.seq.add_block(reads[n % 2], m.adc, label("LIN", 1, "INC"), label("REV", n % 2))
        m.seq.add_block(m.trapezoid("y", area=1 / FOV, duration=100e-6))
    return m.seq


def spiral(arms=16, samples=800):
    """Archimedean arms, as shapes."""
    m = Maker()
    s = np.linspace(0, 1, samples + 1)
    s = s**2 * (1.5 - 0.5 * s)  # slow at first
    for arm in range(arms):
        k = (N / 2 - 0.2) / FOV * s * np.exp(2j * np.pi * (N / 2 / arms * s + arm / arms))
        g = np.diff(k) / m.system.grad_raster_time
        g = np.concatenate([g, g[-1] * (np.arange(60)[::-1] + 0.5) / 60])  # samples in the middles of raster times: to 0
        any_slew = dict(first=0, last=0, system=m.system, max_slew=1e12, max_grad=1e9)
        m.seq.add_block(m.rf, m.gz)
        m.seq.add_block(m.rewind)
        m.seq.add_block(m.pp.make_arbitrary_grad("x", g.real, **any_slew),
                        m.pp.make_arbitrary_grad("y", g.imag, **any_slew),
                        m.pp.make_adc(2 * samples, dwell=5e-6, system=m.system), label("LIN", arm))  # fmt: skip
        m.seq.add_block(m.pp.make_delay(1e-3))
    return m.seq


def stack(spokes=5, partitions=4):
    """Stars, one above the other, with labels by their sum and 3D trapezoids."""
    m = Maker()
    m.seq.set_definition("FOV", [FOV, FOV, 0.04])
    for partition in range(partitions):
        z = m.trapezoid("z", area=(partition - partitions // 2) / 0.04, duration=1e-3)
        for spoke in range(spokes):
            angle = np.pi * spoke / spokes
            m.seq.add_block(m.rf)
            m.seq.add_block(*m.pp.rotate(m.back, z, angle=angle, axis="z"))
            m.seq.add_block(*m.pp.rotate(m.read, m.adc, angle=angle, axis="z"), label("LIN", spoke),
                            label("PAR", partition), label("SEG", 1, "INC"))  # fmt: skip
    return m.seq


MAKERS = dict(cartesian=cartesian, spin_echo=spin_echo, radial=radial, epi=epi, epi_flat=lambda: epi(False),
              spiral=spiral, stack=stack)  # fmt: skip
