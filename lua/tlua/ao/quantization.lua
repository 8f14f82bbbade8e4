-- quantization.lua - torch.ao.quantization.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.ao", {
   observers = [[MinMaxObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver
      MovingAveragePerChannelMinMaxObserver]],
   modules = "FakeQuantize DynamicQuantizedLinear quantize_dynamic",
}))
