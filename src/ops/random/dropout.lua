-- Dropout of elements and of whole channels.

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
      doc = [[While training, elements are set to 0 with probability p and the others multiplied by
      1 / (1 - p).]]}
drop {"alpha_dropout(Tensor self, float p=0.5, bool training=false" .. random, also = true,
      doc = [[dropout that keeps mean 0 and variance 1 of selu's results: what is dropped gets
      selu's lowest value, then all are scaled and shifted.]]}
drop {"feature_alpha_dropout(Tensor self, float p=0.5, bool training=false" .. random, also = true,
      doc = "alpha_dropout of whole channels (dimension 2)."}
for n = 1, 3 do
   drop {("dropout%dd(Tensor self, float p=0.5, bool training=true"):format(n) .. random,
         doc = [[dropout of whole channels: all dimensions after the second, or after the first of
         an input without batch.]]}
end

local given = "*, Generator generator=nil"
-- What dropout needs in one call: self where the mask holds, scaled by 1 / (1 - p), else 0.
op {"native_dropout(Tensor self, float p, bool train, " .. given
      .. ") -> (Tensor result, Tensor mask)",
    name = "dropout", node = "NativeDropout",
    internal = true, grad = {self = "native_dropout_backward(grad_result, mask, p, train)"}}
op {"native_dropout_backward(Tensor grad, Tensor mask, float p, bool train) -> Tensor",
    internal = true,
    composite = true}
