-- quantization.lua - torch.ao.quantization.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.ao", {
   observers = [[MinMaxObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver
      MovingAveragePerChannelMinMaxObserver]],
   histogram = "HistogramObserver",
   modules = "FakeQuantize DynamicQuantizedLinear quantize_dynamic",
   static = [[QConfig QuantStub DeQuantStub default_qconfig default_per_channel_qconfig
      get_default_qconfig prepare convert]],
   fuse = "fuse_modules",
   programs = "quantize_",
}))
