-- Operators that drop elements or whole channels at random.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

local random = ", *, Generator generator=nil) -> Tensor"

local function drop(entry)
   entry.composite, entry.inplace, entry.gradcheck = true, true, false
   entry.examples = {"T(4, 3, 5, 2)"}
   F(entry)
end

drop {"dropout(Tensor self, float p=0.5, bool training=true" .. random, also = true,
      doc = [[While training, sets each element to 0 with probability p, and multiplies the others
      by 1 / (1 - p).]]}
example("dropout", [[
   torch.manual_seed(0)
   local x = torch.nn.functional.dropout(torch.ones(1000), 0.5)
   print(x:unique()) -- the remaining elements are scaled by 1 / (1 - p)
   --> tensor([0., 2.])]])
drop {"alpha_dropout(Tensor self, float p=0.5, bool training=false" .. random, also = true,
      doc = [[Applies dropout so that mean 0 and variance 1 of selu's results stay: dropped elements
      get selu's lowest value, then all elements are scaled and shifted.]]}
drop {"feature_alpha_dropout(Tensor self, float p=0.5, bool training=false" .. random, also = true,
      doc = "Applies alpha_dropout to whole channels (dimension 2)."}
for n = 1, 3 do
   drop {("dropout%dd(Tensor self, float p=0.5, bool training=true"):format(n) .. random,
         doc = "Applies dropout to whole channels: (N, C, ...), or (C, ...) without a batch."}
end

F {[[dropout_add(Tensor input, Tensor residual, float p=0.5, bool training=true, *,
      Generator generator=nil) -> Tensor]],
   composite = true, gradcheck = false,
   doc = [[Computes residual + dropout(input, p, training), in one pass if both have the same shape
   and dtype.]],
   examples = {"T(4, 3), T(4, 3)", "T(4, 3), T(3)"}}

-- Computes dropout in one pass. The gradient draws the same random numbers again, so only their
-- position in the stream is saved (tli_Stretch).
local from = "float p, int seed, int block, Tensor state) -> Tensor"
op {"dropout_core(Tensor self, " .. from,
    name = "dropout", node = "NativeDropout", internal = true,
    grad = {self = "dropout_core(grad, p, seed, block, state)"}}
op {"dropout_add_core(Tensor self, Tensor residual, " .. from,
    name = "dropout_add", internal = true,
    grad = {self = "dropout_core(grad, p, seed, block, state)", residual = "grad"}}

takes_complex [[dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d]]
