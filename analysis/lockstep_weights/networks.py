# SPDX-License-Identifier: BSD-3-Clause
"""The networks of Lockstep: names and shapes of their tensors, which src/graph/models defines, and
the names that other implementations give to the same tensors."""

from dataclasses import dataclass
from functools import partial

KUANGLIU, TORCHVISION = "kuangliu", "torchvision"
# Of ResNet: name of kuangliu/pytorch-cifar -> name of torchvision.
MODULES = {
    "shortcut": "downsample",
    "linear": "fc",
}
RENAMED = {TORCHVISION: MODULES, KUANGLIU: {theirs: ours for ours, theirs in MODULES.items()}}
# Tensors of a normalisation.
BATCH_NORM, GROUP_NORM, NO_NORM = (
    ("weight", "bias", "running_mean", "running_var"),
    ("weight", "bias"),
    (),
)
COUNTER = (  # PyTorch's count of training steps, one per batch norm; Lockstep does not read it
    ".num_batches_tracked"
)


@dataclass(frozen=True)
class Network:
    """`tensors(channels, classes)` returns {name: shape}, without counters; the last two belong to
    the classifier. `styles`: the implementations whose classes load the weights; Lockstep's names
    are those of the first.
    """

    name: str
    tensors: callable
    styles: tuple

    def shapes(self, state, classes=None):
        """Returns {name: shape} for the image channels of `state`, and for its classes unless
        `classes` is given."""
        first, *_, classifier = self.tensors(3, 10)
        channels = extent(state, first, 1, 3)
        return self.tensors(channels, classes or extent(state, classifier, 0, 10))

    def has_running_statistics(self):
        return any(name.endswith(".running_mean") for name in self.tensors(3, 10))


def extent(state, name, axis, default):
    """Returns the extent of a tensor along an axis; `default` if the state has no such tensor."""
    shape = state[name].shape if name in state else ()
    return shape[axis] if len(shape) > axis else default


def renamed(name, style):
    """Returns the name of a tensor in the implementation `style`."""
    return ".".join(RENAMED[style].get(module, module) for module in name.split("."))


def convolution(name, inputs, outputs, kernel, norm_name, norm):
    """Yields the tensors of a convolution and of the normalisation after it."""
    yield f"{name}.weight", (outputs, inputs, kernel, kernel)
    yield from ((f"{norm_name}.{tensor}", (outputs,)) for tensor in norm)


def linear(name, inputs, outputs):
    yield from ((f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,)))


def resnet(channels, classes, blocks, kernel=3, norm=BATCH_NORM, style=KUANGLIU):
    tensors = dict(convolution("conv1", channels, 64, kernel, "bn1", norm))
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            name = f"layer{stage + 1}.{block}"
            tensors.update(convolution(f"{name}.conv1", inputs, width, 3, f"{name}.bn1", norm))
            tensors.update(convolution(f"{name}.conv2", width, width, 3, f"{name}.bn2", norm))
            if inputs != width:
                tensors.update(
                    convolution(f"{name}.shortcut.0", inputs, width, 1, f"{name}.shortcut.1", norm)
                )
            inputs = width
    tensors.update(linear("linear", inputs, classes))
    return {renamed(name, style): shape for name, shape in tensors.items()}


def vgg(channels, classes, counts, norm=BATCH_NORM):
    """`counts`: number of convolutions before each max-pool. The classifier is one layer; without
    normalisation, the network is that for ImageNet, whose classifier has three."""
    tensors, inputs, index = {}, channels, 0
    for count, width in zip(counts, (64, 128, 256, 512, 512)):
        for _ in range(count):
            tensors.update(
                convolution(f"features.{index}", inputs, width, 3, f"features.{index + 1}", norm)
            )
            tensors[f"features.{index}.bias"] = (width,)
            inputs, index = width, index + (3 if norm else 2)  # with ReLU
        index += 1  # max-pool
    if norm:
        return tensors | dict(linear("classifier", inputs, classes))
    for name, outputs in (
        ("classifier.0", 4096),
        ("classifier.3", 4096),
        ("classifier.6", classes),
    ):
        tensors.update(linear(name, 49 * 512 if name == "classifier.0" else 4096, outputs))
    return tensors


NETWORKS = {
    network.name: network
    for network in (
        Network("resnet18-cifar", partial(resnet, blocks=(2, 2, 2, 2)), (KUANGLIU, TORCHVISION)),
        Network(
            "resnet18-gn-cifar",
            partial(resnet, blocks=(2, 2, 2, 2), norm=GROUP_NORM),
            (KUANGLIU, TORCHVISION),
        ),
        Network(
            "resnet18-imagenet",
            partial(resnet, blocks=(2, 2, 2, 2), kernel=7, style=TORCHVISION),
            (TORCHVISION,),
        ),
        Network("resnet34-cifar", partial(resnet, blocks=(3, 4, 6, 3)), (KUANGLIU, TORCHVISION)),
        Network("vgg11", partial(vgg, counts=(1, 1, 2, 2, 2)), (KUANGLIU,)),
        Network("vgg13", partial(vgg, counts=(2, 2, 2, 2, 2)), (KUANGLIU,)),
        Network("vgg16", partial(vgg, counts=(2, 2, 3, 3, 3)), (KUANGLIU,)),
        Network(
            "vgg16-imagenet", partial(vgg, counts=(2, 2, 3, 3, 3), norm=NO_NORM), (TORCHVISION,)
        ),
        Network("vgg19", partial(vgg, counts=(2, 2, 4, 4, 4)), (KUANGLIU,)),
    )
}
