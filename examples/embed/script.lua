-- Each sensor's readings with mean 0 and deviation 1. The tensor is the host's
-- own memory: what is written to it in place, the host sees.
function normalise(readings)
   readings:clamp_(0, 10)
   local mean, std = readings:mean(1), readings:std(1)
   return (readings - mean) / std
end
