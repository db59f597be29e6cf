//! What the media thread asks of Linux, each call in the smallest function that makes it safe.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// CLOCK_MONOTONIC in nanoseconds.
#[allow(unsafe_code)]
pub(super) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives through the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until a point on CLOCK_MONOTONIC; a signal may end it early, which costs a look at the sockets.
#[allow(unsafe_code)]
pub(super) fn sleep_until(ns: u64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    // SAFETY: the pointer is to a timespec that lives through the call; no remainder is asked for with an absolute time.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
}

/// Asks for FIFO scheduling of the calling thread; the priority is below the kernel's own threads.
#[allow(unsafe_code)]
pub(super) fn schedule_fifo() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the pointer is to a sched_param that lives through the call; the thread is the calling one.
    match unsafe { libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &parameters) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Marks a socket's packets as voice (DSCP EF, RFC 3246). Where the network or the system does not care, so be it.
#[allow(unsafe_code)]
pub(super) fn expedite(socket: &UdpSocket) {
    let class: libc::c_int = 46 << 2;
    let v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    let (level, name) = if v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    // SAFETY: the value is a c_int that lives through the call, and its size is given.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const class).cast(), size_of::<libc::c_int>() as libc::socklen_t) };
}

/// Takes a socket's connection back: it hears everybody again.
#[allow(unsafe_code)]
pub(super) fn disconnect(socket: &UdpSocket) {
    // SAFETY: all zeros are a valid sockaddr, and its family is AF_UNSPEC; it lives through the call, and its size is given.
    unsafe {
        let nobody: libc::sockaddr = std::mem::zeroed();
        libc::connect(socket.as_raw_fd(), &raw const nobody, size_of::<libc::sockaddr>() as libc::socklen_t);
    }
}

/// An eventfd: wakes who reads it, however often it was signalled.
#[derive(Debug)]
pub(super) struct Signal(OwnedFd);

impl Signal {
    /// A signal whose reader waits in `read` (blocking) or in an event loop (not blocking).
    #[allow(unsafe_code)]
    pub(super) fn new(blocking: bool) -> io::Result<Self> {
        let flags = libc::EFD_CLOEXEC | if blocking { 0 } else { libc::EFD_NONBLOCK };
        // SAFETY: eventfd takes no pointers; a descriptor that is not negative is new and ours alone.
        unsafe {
            match libc::eventfd(0, flags) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(Self(OwnedFd::from_raw_fd(descriptor))),
            }
        }
    }

    /// Wakes the reader.
    #[allow(unsafe_code)]
    pub(super) fn raise(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer is eight bytes, as an eventfd takes them, and lives through the call.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes the signal; waits for it where the signal is blocking.
    #[allow(unsafe_code)]
    pub(super) fn take(&self) -> io::Result<()> {
        let mut count = [0u8; 8];
        // SAFETY: the buffer is eight bytes, as an eventfd gives them, and lives through the call.
        match unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The readiness of many sockets.
#[derive(Debug)]
pub(super) struct Readiness {
    epoll: OwnedFd,
}

impl Readiness {
    #[allow(unsafe_code)]
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes no pointers; a descriptor that is not negative is new and ours alone.
        unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(Self { epoll: OwnedFd::from_raw_fd(descriptor) }),
            }
        }
    }

    /// Watches a socket; its readiness is told under `token`.
    #[allow(unsafe_code)]
    pub(super) fn add(&self, socket: &UdpSocket, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: both descriptors are open, and the pointer is to an event that lives through the call.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &mut event) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Watches a socket no more.
    #[allow(unsafe_code)]
    pub(super) fn remove(&self, socket: &UdpSocket) {
        // SAFETY: both descriptors are open; the event is not looked at when removing.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, socket.as_raw_fd(), std::ptr::null_mut()) };
    }

    /// The tokens of sockets that are ready now, without waiting.
    #[allow(unsafe_code)]
    pub(super) fn ready(&self, tokens: &mut [u64; READY_MAX]) -> usize {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; READY_MAX];
        // SAFETY: the pointer is to READY_MAX events that live through the call.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), READY_MAX as libc::c_int, 0) };
        let count = usize::try_from(count).unwrap_or(0).min(READY_MAX);
        for (token, event) in tokens.iter_mut().zip(&events[..count]) {
            *token = event.u64;
        }
        count
    }
}

/// Room for the datagrams of one read.
pub(super) struct Datagrams {
    data: [[u8; DATAGRAM_OCTETS]; DATAGRAMS],
    sources: [libc::sockaddr_storage; DATAGRAMS],
    lengths: [usize; DATAGRAMS],
}

impl Datagrams {
    #[allow(unsafe_code)]
    pub(super) fn new() -> Box<Self> {
        // SAFETY: all zeros are a valid sockaddr_storage (of no family).
        let none: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Box::new(Self { data: [[0; DATAGRAM_OCTETS]; DATAGRAMS], sources: [none; DATAGRAMS], lengths: [0; DATAGRAMS] })
    }

    /// Reads what waits in a socket, at most [`DATAGRAMS`]; returns how many came. Longer ones are cut.
    #[allow(unsafe_code)]
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> usize {
        let mut pieces: [libc::iovec; DATAGRAMS] =
            std::array::from_fn(|n| libc::iovec { iov_base: self.data[n].as_mut_ptr().cast(), iov_len: DATAGRAM_OCTETS });
        // SAFETY: all zeros are a valid mmsghdr (without name, pieces or control data).
        let mut headers: [libc::mmsghdr; DATAGRAMS] = unsafe { std::mem::zeroed() };
        for (n, header) in headers.iter_mut().enumerate() {
            header.msg_hdr.msg_iov = &raw mut pieces[n];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut self.sources[n]).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        let (flags, no_timeout) = (libc::MSG_DONTWAIT, std::ptr::null_mut());
        // SAFETY: each header points to one piece and one source of their given sizes, all of which live through the call.
        let count = unsafe { libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), DATAGRAMS as libc::c_uint, flags as _, no_timeout) };
        let count = usize::try_from(count).unwrap_or(0).min(DATAGRAMS);
        for (length, header) in self.lengths.iter_mut().zip(&headers[..count]) {
            *length = (header.msg_len as usize).min(DATAGRAM_OCTETS);
        }
        count
    }

    /// The datagram at `index` of the last read, and where it came from.
    pub(super) fn datagram(&self, index: usize) -> Option<(&[u8], SocketAddr)> {
        let data = self.data.get(index)?.get(..*self.lengths.get(index)?)?;
        Some((data, address(self.sources.get(index)?)?))
    }
}

#[allow(unsafe_code)]
fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in, which is smaller and no more aligned.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds a sockaddr_in6, which is smaller and no more aligned.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::new(ip, u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

/// Above every ordinary thread, below the kernel's (50).
const PRIORITY: libc::c_int = 20;
/// Sockets told ready in one go; more are told in the next.
pub(super) const READY_MAX: usize = 64;
/// Packets of one call in one go: four are 80 ms of audio.
const DATAGRAMS: usize = 4;
/// An Ethernet frame's worth.
const DATAGRAM_OCTETS: usize = 1_500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_read_in_batches_with_their_sources() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let (Ok(to), Ok(from)) = (UdpSocket::bind(ip), UdpSocket::bind(ip)) else {
                println!("skipped: no {ip} here");
                continue;
            };
            to.set_nonblocking(true).unwrap();
            let readiness = Readiness::new().unwrap();
            readiness.add(&to, 7).unwrap();
            let mut tokens = [0; READY_MAX];
            assert_eq!(readiness.ready(&mut tokens), 0);
            for n in 0..6u8 {
                from.send_to(&[n; 5], to.local_addr().unwrap()).unwrap();
            }
            assert_eq!((readiness.ready(&mut tokens), tokens[0]), (1, 7));
            let mut datagrams = Datagrams::new();
            assert_eq!(datagrams.receive(&to), 4);
            assert_eq!(datagrams.datagram(3), Some((&[3; 5][..], from.local_addr().unwrap())));
            assert_eq!(datagrams.receive(&to), 2);
            assert_eq!(datagrams.receive(&to), 0);
            readiness.remove(&to);
        }
    }
}
