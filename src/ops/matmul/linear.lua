-- Operators that compute linear and bilinear layers.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {"linear(Tensor input, Tensor weight, Tensor bias=nil) -> Tensor",
   doc = [[Multiplies input (..., in) by the transpose of weight (out, in) and adds bias (out):
   (..., out). A weight of one dimension (in) gives (...).]],
   composite = true,
   autocast = "lower",
   examples = {"T(5, 3), T(2, 3), T(2)", "T(2, 4, 3), T(2, 3)", "T(3), T(2, 3), T(2)",
               "T(2, 3), T(3)", "T(0, 3), T(2, 3)"}}
example("linear", [=[
   local x, weight = torch.tensor {{1.0, 2.0}}, torch.tensor {{3.0, 4.0}}
   print(torch.nn.functional.linear(x, weight, torch.tensor {0.5}))
   --> tensor([[11.5000]])]=])
F {"bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor bias=nil) -> Tensor", also = true,
   doc = [[For each output k computes input1 (..., in1) times weight[k] (in1, in2) times input2
   (..., in2), plus bias[k]; weight is (out, in1, in2), the result (..., out).]],
   composite = true,
   autocast = {gpu = "widest"},
   examples = {"T(4, 3), T(4, 2), T(5, 3, 2), T(5)", "T(2, 2, 3), T(2, 2, 2), T(1, 3, 2)"}}

takes_complex "linear bilinear"
