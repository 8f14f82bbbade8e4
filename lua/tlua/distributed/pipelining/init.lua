-- init.lua - torch.distributed.pipelining: trains models whose layers are distributed over several
-- ranks, one after another.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.distributed.pipelining", {
   PipelineStage = "PipelineStage",
   schedules = [[ScheduleGPipe Schedule1F1B ScheduleInterleaved1F1B ScheduleLoopedBFS
      ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble ScheduleDualPipeV]],
}))
