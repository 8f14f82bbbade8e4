-- init.lua - torch.profiler: measures the time and memory that a program uses. Each part of the
-- module is loaded when it is first used.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.profiler", {
   profile = "profile",
   schedule = "schedule",
   spans = "record_function",
   handlers = "tensorboard_trace_handler",
   script = "script",
   names = "ProfilerActivity ProfilerAction supported_activities kineto_available",
}))
