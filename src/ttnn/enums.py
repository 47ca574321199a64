"""TT-NN's enumerations, as a table.

Members are listed in their official order. Numbers are written where they do not simply count from zero. Enums that the machine itself
needs (dtypes, layouts, memory) live in `tessera`; the rest carry no behaviour, so a line each is all they are.
"""

from __future__ import annotations

from tessera.formats.enums import official_enum

TABLE = {
    "Arch": "WORMHOLE_B0=2 BLACKHOLE=3 QUASAR=4",
    "BcastOpDim": "H W HW",
    "BcastOpMath": "ADD SUB MUL",
    "BinaryOpType": (
        "ADD SUB MUL GT LT LE GE EQ NE SQUARED_DIFFERENCE BIAS_GELU LOGADDEXP LOGICAL_AND LOGICAL_OR LOGICAL_XOR LDEXP LOGADDEXP2 "
        "DIV DIV_FLOOR DIV_TRUNC REMAINDER FMOD RSUB POWER BITWISE_XOR BITWISE_AND BITWISE_OR LEFT_SHIFT RIGHT_SHIFT "
        "LOGICAL_RIGHT_SHIFT QUANT REQUANT DEQUANT MAXIMUM MINIMUM GCD LCM ADDALPHA SUBALPHA XLOGY HYPOT ATAN2 NEXTAFTER "
        "WHERE_TST WHERE_TTS ISCLOSE SITU_GLU"
    ),
    "ChunkGdnWyInverse": "AUTO HORNER FORWARD_SUBSTITUTION",
    "ClusterType": (
        "INVALID=0 N150=1 N300=2 T3K=3 GALAXY=4 TG=5 P100=6 P150=7 P150_X2=8 P150_X4=9 P150_X8=13 SIMULATOR_WORMHOLE_B0=10 "
        "SIMULATOR_BLACKHOLE=11 N300_2x2=12 P300=14 SIMULATOR_QUASAR=15 BLACKHOLE_GALAXY=16 P300_X2=17 CUSTOM=18"
    ),
    "CoreType": ("ARC DRAM ACTIVE_ETH IDLE_ETH PCIE TENSIX ROUTER_ONLY SECURITY L2CPU DISPATCH HARVESTED ETH WORKER COUNT UNSPECIFIED"),
    "D2DStageGateMode": "KeepOpen CloseOnTransit",
    "DataMovementProcessor": "RISCV_0 RISCV_1 RISCV_2 RISCV_3 RISCV_4 RISCV_5 RISCV_6 RISCV_7",
    "DispatchAlgorithm": "BROADCAST SPARSE_UNICAST SPARSE_MCAST_LINEAR SPARSE_MCAST_SHORTEST_PATH SPARSE_MCAST_SPLIT_BW",
    "DispatchCoreAxis": "ROW COL",
    "DispatchCoreType": "WORKER ETH",
    "DistributedLayerNormStage": "NOT_DISTRIBUTED PRE_ALL_GATHER POST_ALL_GATHER",
    "DumpTensorMode": "DISTRIBUTED_GATHER LOCAL",
    "EmbeddingsType": "GENERIC PADDED BINARY",
    "FabricConfig": (
        "DISABLED=0 FABRIC_1D=2 FABRIC_1D_RING=3 FABRIC_1D_NEIGHBOR_EXCHANGE=1 FABRIC_2D=4 FABRIC_2D_TORUS_XY=7 "
        "FABRIC_2D_TORUS_X=5 FABRIC_2D_TORUS_Y=6 CUSTOM=8"
    ),
    "FabricManagerMode": "DEFAULT=3 ENABLED=0 INIT_FABRIC=1 TERMINATE_FABRIC=2",
    "FabricReliabilityMode": "STRICT_INIT RELAXED_INIT DYNAMIC_RECONFIG",
    "FabricTensixConfig": "DISABLED MUX",
    "FabricType": "MESH=1 TORUS_X=2 TORUS_Y=4 TORUS_XY=6",
    "FabricUDMMode": "DISABLED ENABLED",
    "GeluVariant": "Accurate FastLut Tanh",
    "H2DMode": "HOST_PUSH DEVICE_PULL",
    "LayerNormType": "LAYERNORM RMSNORM",
    "LossReductionMode": "NONE MEAN SUM",
    "MMSignalAggregatorMode": "Auto On Off",
    "MathFidelity": "LoFi=0 HiFi2=2 HiFi3=3 HiFi4=4 Invalid=255",
    "McastCoreOrder": "RowMajor ColumnMajor",
    "McastDataReady": "Flag Counter",
    "McastSenderPlacement": "Uniform Staggered",
    "NOC": "RISCV_0_default=0 RISCV_1_default=1 NOC_0=0 NOC_1=1",
    "NOC_MODE": "DM_DEDICATED_NOC DM_DYNAMIC_NOC",
    "PaddingMode": "Zeros Replicate",
    "RGBRange": "MinusOneToOne ZeroToOne",
    "ReduceType": "Sum Mean Max Min Std Var Prod",
    "RoutedExpertActivation": "Silu SwiGluOai SituGlu ClampedSiluGlu",
    "SigmoidMode": "Accurate=2 AccurateWithFastExp=1 FastApproximate=0",
    "SocketEndpoint": "SENDER RECEIVER",
    "SparseKVFormat": "BF16 FP8_E4M3 SCALED_FP8",
    "StorageType": "HOST DEVICE",
    "ThrottleLevel": "NO_THROTTLE LEVEL_1 LEVEL_2 LEVEL_3 LEVEL_4 LEVEL_5",
    "TileReshapeMapMode": "CACHE RECREATE",
    "Topology": "Ring=2 Linear=1 Mesh=3 Torus=4",
    "TransferMode": "Multicast ChainUnicast",
    "UnaryOpType": (
        "EXP RECIP GELU GELU_TANH RELU SQRT SIGMOID LOG LOG1P TANH LOG2 LOG10 SIN COS COSH SINH ABS ABS_INT32 SIGN SQUARE EQZ NEZ "
        "GTZ LTZ GEZ LEZ RELU_MAX RELU_MIN POWER POWER_ITERATIVE LEAKY_RELU ELU EXP2 HEAVISIDE EXPM1 SIGNBIT ASIN ACOS ACOSH "
        "RSQRT RELU6 ATAN ASINH ATANH ERF ERFC ISINF ISPOSINF ISNEGINF ISNAN LOGICAL_NOT_UNARY ISFINITE ERFINV I0 I1 TAN RSUB "
        "RDIV SILU SOFTPLUS IDENTITY NEG ADD_UNARY_SFPU SUB_UNARY_SFPU MUL_UNARY_SFPU DIV_UNARY_SFPU UNARY_NE UNARY_EQ UNARY_GT "
        "UNARY_LT UNARY_GE UNARY_LE TILED_PROD TYPECAST BITCAST BITWISE_XOR BITWISE_NOT BITWISE_AND BITWISE_OR RIGHT_SHIFT FLOOR "
        "CEIL TRUNC FRAC ROUND LEFT_SHIFT REMAINDER FMOD DROPOUT FILL PRELU_SFPU ZERO_POINT ALT_COMPLEX_ROTATE90 MISH HARDMISH "
        "MAXIMUM MINIMUM TANHSHRINK THRESHOLD SOFTSHRINK HARDSHRINK HARDTANH HARDSIGMOID HARDSWISH WHERE_TSS MAC_TSS SOFTSIGN "
        "CELU CLAMP_TSS SELU RPOW CBRT LOGSIGMOID LOGIT XIELU LGAMMA DIGAMMA POLYGAMMA SOFTCAP"
    ),
    "UnpackToDestMode": "UnpackToDestFp32 Default",
    "WorkerMode": "DIRECT MUX_TOKEN_SPLIT MUX_PAYLOAD_SPLIT",
    "YUVColorSpace": "BT601 BT709 BT2020",
    "YUVFormat": "YUV420Planar",
    "YUVRange": "Full Limited",
}


def _members(text: str) -> dict[str, int]:
    found = {}
    for position, item in enumerate(text.split()):
        name, _, number = item.partition("=")
        found[name] = int(number) if number else position
    return found


__all__ = sorted(TABLE)

for _name, _text in TABLE.items():
    globals()[_name] = official_enum(_name, _members(_text), module="ttnn._ttnn.types")
