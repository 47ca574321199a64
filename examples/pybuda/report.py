"""What the compiler did: placement, memory by channel, operation counts, the graph as text, and the netlist."""

import torch
from models import BertEncoder

import pybuda

pybuda.set_configuration_options(default_df_override=pybuda.DataFormat.Bfp8_b, accumulate_df=pybuda.DataFormat.Float16_b)
tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("encoder", BertEncoder(layers=1, width=128, heads=4, inner=256).eval()))
tt0.push_to_inputs(torch.randn(1, 64, 128))
pybuda.run_inference().get()

report = pybuda.compile_report(tt0)
print(report["ops"])
print(report["memory"])
for row in report["placement"][:5]:
    print(row)
results = tt0.get_compiled_results()
print(results.lowered_graph.text().splitlines()[-3])
print(results.netlist_filename)
