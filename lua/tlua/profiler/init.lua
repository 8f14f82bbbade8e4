-- init.lua - torch.profiler: what a program's time and memory go into. Each part is loaded when it
-- is first used.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.profiler", {
   profile = "profile",
   schedule = "schedule",
   spans = "record_function",
   handlers = "tensorboard_trace_handler",
   script = "script",
   names = "ProfilerActivity ProfilerAction supported_activities kineto_available",
}))
