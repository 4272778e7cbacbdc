-- The nodes of a job: id, info, report, microseconds since it was heard, whether it left (0, 1).
local job, nodes = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local views = {}
local fields = redis.call('HGETALL', nodes)
for at = 1, #fields, 2 do
  local node = cmsgpack.unpack(fields[at + 1])
  views[#views + 1] = { tonumber(fields[at]), node[2], node[3], math.max(now - node[4], 0), node[5] and 1 or 0 }
end
return views
