-- Normalises each sensor's readings to mean 0 and standard deviation 1. The tensor uses the host's
-- own memory, so the host sees values that the script writes in place.
function normalise(readings)
   readings:clamp_(0, 10)
   local mean, std = readings:mean(1), readings:std(1)
   return (readings - mean) / std
end
