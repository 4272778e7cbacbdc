-- want_copies
-- Wants second runs of mini-batches. Returns 1 and those that none was wanted of before, packed; 0 and none when the lease
-- to watch over the job has changed hands.
-- ARGV: indexes, packed; number of the caller's lease
local job, ended, copies, open_copies, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if redis.call('EXISTS', job) == 0 then return false end
local new = {}
if redis.call('HGET', leases, 'watch:fence') ~= ARGV[2] then return { 0, cmsgpack.pack(new) } end
for _, index in ipairs(cmsgpack.unpack(ARGV[1])) do
  if redis.call('GETBIT', ended, index) == 0 and redis.call('HEXISTS', copies, index) == 0 then
    redis.call('HSET', copies, index, '')
    redis.call('HSET', open_copies, index, '')
    new[#new + 1] = index
  end
end
return { 1, cmsgpack.pack(new) }
