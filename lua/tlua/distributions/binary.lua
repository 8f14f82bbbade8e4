-- binary.lua - the parameters of distributions such as Bernoulli: a probability, given as `probs`,
-- or as `logits`, the logarithm of its odds.

local torch = require "tlua"
local constraints = require "tlua.distributions.constraints"

-- Adds the parameters probs and logits to a definition. The field `_inner` is probs clamped to
-- numbers greater than 0 and less than 1, so that its logit is finite.
return function(spec)
   spec.either = {"probs", "logits"}
   spec.constraints = spec.constraints or {}
   spec.constraints.probs = spec.constraints.probs or constraints.unit_interval
   spec.constraints.logits = constraints.real
   spec.cached = spec.cached or {}
   function spec.cached:probs() return self.logits:sigmoid() end
   function spec.cached:_inner()
      local eps = torch.finfo(self.probs.dtype).eps
      return self.probs:clamp(eps, 1 - eps)
   end
   function spec.cached:logits() return self._inner:log() - (-self._inner):log1p() end
   function spec:param_shape() return self.batch_shape end
   return spec
end
